// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace verbatim {

/// Why an operation was refused: an errno value for the C edge and the cause in words for a person.
struct Error {
  int code = 0;        ///< errno value, never 0
  std::string reason;  ///< one clause, no full stop: "rkey 0x1234 belongs to another protection domain"
};

/// The result of an operation that can be refused: a value or an Error, never both.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value.
struct Done {};
using Outcome = Expected<Done>;

}  // namespace verbatim
