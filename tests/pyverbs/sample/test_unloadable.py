# SPDX-License-Identifier: MIT
"""A module that cannot be loaded keeps no other one from running."""
raise ImportError('made to fail')
