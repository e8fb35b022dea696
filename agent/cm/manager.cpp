// SPDX-License-Identifier: MIT
#include "agent/cm/manager.h"

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::agent::cm {

namespace {

constexpr uint64_t kReturnNs = 10'000'000'000;
constexpr size_t kIdsMax = 1 << 20;
constexpr uint32_t kSearchAgainMs = 2000;
constexpr size_t kChannelsMax = 1 << 16;  ///< of one process

bool is_port_space(uint16_t space) {
  return space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IPOIB || space == RDMA_PS_IB;
}

// What told of an answer of the peer comes again with the answer, when the connection asks again. False: it
// told of something else.
bool step_back(Connection& connection, uint32_t type) {
  if (type == RDMA_CM_EVENT_CONNECT_RESPONSE && connection.phase == Phase::kRepReceived) {
    connection.phase = Phase::kReqSent;
    connection.remote_comm_id = 0;
  } else if (type == RDMA_CM_EVENT_ESTABLISHED && connection.phase == Phase::kEstablished) {
    connection.phase = Phase::kRepSent;
  } else if (type == RDMA_CM_EVENT_ESTABLISHED && connection.phase == Phase::kIdle &&
             roce::cm::Message::parse(connection.pending)) {
    connection.phase = Phase::kSidrReqSent;
    connection.has_pending = true;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Manager::Manager(HostView& host, MadWire& wire, Bell& bell)
    : host_(host), bell_(bell), connections_(wire, *this, host.guid(), host.random()) {}

// Ids are numbered from anywhere, so that new ones do not get numbers that are still to be given back.
uint32_t Manager::open_client() {
  clients_[next_client_].next_id = 1 + (host_.random() & 0x3fffffff);
  return next_client_++;
}

void Manager::close_client(uint32_t client, uint64_t now_ns) {
  set_time(now_ns);
  std::vector<Key> keys;
  for (const auto& [key, id] : ids_)
    if (id.client == client) keys.push_back(key);
  for (const Key key : keys) remove_id(key);
  clients_.erase(client);
}

void Manager::on_mad(const Arrival& arrival, uint64_t now_ns) {
  set_time(now_ns);
  connections_.arrived(arrival);
}

void Manager::set_time(uint64_t now_ns) {
  now_ns_ = now_ns;
  connections_.set_time(now_ns);
}

void Manager::step(uint64_t now_ns) {
  set_time(now_ns);
  connections_.step();
  std::vector<Key> due;
  for (const auto& [key, going] : searches_)
    if (going.next_ns <= now_ns) due.push_back(key);
  for (const Key key : due) search(*find(key));
}

uint64_t Manager::deadline_ns() const {
  uint64_t first = connections_.deadline_ns();
  for (const auto& [key, going] : searches_) first = std::min(first, going.next_ns);
  return first;
}

void Manager::expect_returns(uint64_t now_ns) {
  if (!std::exchange(returns_expected_, true)) connections_.expect_returns(now_ns + kReturnNs);
}

Answer Manager::handle(uint32_t client, const Request& request, uint64_t now_ns) {
  set_time(now_ns);
  Answer answer{};
  answer.serial = request.serial;
  answer.id = request.id;
  answer.channel = request.channel;
  if (request.what == Do::kRestore) expect_returns(now_ns);
  const Outcome done = clients_.count(client) != 0 ? perform(client, request, answer)
                                                   : Outcome(Error{ESRCH, "no such process"});
  if (!done) {
    answer.error = done.error().code;
    std::strncpy(answer.text, done.error().reason.c_str(), sizeof answer.text - 1);
  }
  return answer;
}

Outcome Manager::perform(uint32_t client, const Request& request, Answer& answer) {
  switch (request.what) {
    case Do::kOpenChannel:
      return open_channel(client, request, answer);
    case Do::kCloseChannel:
      return close_channel(client, request);
    case Do::kGetEvent:
      return get_event(client, request, answer);
    case Do::kCreateId:
      return create_id(client, request, answer);
    case Do::kLeaveMulticast:
      return leave(client, request, answer);
    case Do::kRestore:
      return restore(client, request, answer);
    default:
      break;
  }
  const Key key = key_of(client, request.id);
  Identifier* id = find(key);
  if (!id) return Error{ENOENT, "no such id"};
  if (request.what == Do::kDestroyId) return destroy_id(*id, answer);
  if (Outcome done = perform_on(*id, request, answer); !done) return done;
  answer.view = view(*id);
  answer.testament = testament(*id);
  return Done{};
}

Outcome Manager::perform_on(Identifier& id, const Request& request, Answer& answer) {
  switch (request.what) {
    case Do::kBindAddress:
      if (request.source.family == AF_IB && is_port_space(request.port_space))
        id.s.space = request.port_space;
      return bind(id, request.source);
    case Do::kResolveAddress:
      return resolve_address(id, request);
    case Do::kResolveRoute:
      return resolve_route(id);
    case Do::kQuery:
      return Done{};
    case Do::kListen:
      return listen(id, request.backlog);
    case Do::kConnect:
      return connect(id, request);
    case Do::kAccept:
      return accept(id, request);
    case Do::kEstablish:
      return connections_.ready(id.s.comm_id);
    case Do::kReject:
      return reject(id, request);
    case Do::kDisconnect:
      return disconnect(id);
    case Do::kQpAttributes: {
      Expected<QpAttributes> known = attributes(id, request.qp_state);
      if (!known) return known.error();
      answer.qp = *known;
      return Done{};
    }
    case Do::kSetOption:
      return set_option(id, request);
    case Do::kNotify:
      return notify(id, request.value);
    case Do::kJoinMulticast:
      return join(id, request, answer);
    case Do::kMigrate:
      return migrate(id, request, answer);
    case Do::kWriteEvent:
      return write_event(id, request);
    default:
      return Error{EINVAL, "unknown request"};
  }
}

Outcome Manager::open_channel(uint32_t client, const Request& request, Answer& answer) {
  Client& of = clients_.at(client);
  if (of.channels.size() >= kChannelsMax) return Error{ENOMEM, "too many channels"};
  if (request.channel != 0 && of.channels.count(request.channel) != 0)
    return Error{EBUSY, "the channel is open"};
  uint32_t number = request.channel;
  while (number == 0 || of.channels.count(number) != 0) number = of.next_channel++;
  of.channels[number];
  answer.channel = number;
  return Done{};
}

Outcome Manager::close_channel(uint32_t client, const Request& request) {
  if (clients_.at(client).channels.count(request.channel) == 0) return Error{ENOENT, "no such channel"};
  std::vector<Key> keys;
  for (const auto& [key, id] : ids_)
    if (id.client == client && id.channel == request.channel) keys.push_back(key);
  for (const Key key : keys) remove_id(key);
  clients_.at(client).channels.erase(request.channel);
  return Done{};
}

Outcome Manager::get_event(uint32_t client, const Request& request, Answer& answer) {
  auto& channels = clients_.at(client).channels;
  const auto found = channels.find(request.channel);
  if (found == channels.end()) return Error{ENOENT, "no such channel"};
  if (found->second.events.empty()) return Error{EAGAIN, "no event"};
  const Queued next = found->second.events.front();
  found->second.events.pop_front();
  answer.event = next.event;
  answer.id = next.event.id;
  Identifier* owner = find(next.id);
  owner->events_reported++;
  if (next.membership != 0) {
    owner->memberships.at(next.membership).events_reported++;
    return Done{};
  }
  if (next.child != 0)
    owner->backlog_left++;
  else
    owner->untold--;
  const Identifier& about = next.child != 0 ? *find(next.child) : *owner;
  answer.view = view(about);
  answer.testament = testament(about);
  return Done{};
}

Identifier* Manager::find(Key key) {
  const auto found = ids_.find(key);
  return found == ids_.end() ? nullptr : &found->second;
}

bool Manager::number_is_free(uint32_t client, uint32_t number) {
  return number != 0 && ids_.count(key_of(client, number)) == 0 &&
         clients_.at(client).memberships.count(number) == 0;
}

uint32_t Manager::new_number(uint32_t client) {
  uint32_t& next = clients_.at(client).next_id;
  while (!number_is_free(client, next)) next++;
  return next++;
}

Expected<Identifier*> Manager::add_id(uint32_t client, uint32_t wanted, uint32_t channel) {
  if (ids_.size() >= kIdsMax) return Error{ENOMEM, "too many ids"};
  if (clients_.at(client).channels.count(channel) == 0) return Error{EINVAL, "no such channel"};
  if (wanted != 0 && !number_is_free(client, wanted)) return Error{EBUSY, "the id is in use"};
  const uint32_t number = wanted != 0 ? wanted : new_number(client);
  Identifier& made = ids_[key_of(client, number)];
  made.client = client;
  made.number = number;
  made.channel = channel;
  made.s.first_psn = host_.random() & 0xffffff;
  return &made;
}

Outcome Manager::create_id(uint32_t client, const Request& request, Answer& answer) {
  if (!is_port_space(request.port_space)) return Error{EINVAL, "no such port space"};
  Expected<Identifier*> made = add_id(client, 0, request.channel);
  if (!made) return made.error();
  Identifier& id = **made;
  id.context = request.context;
  id.s.accepted = 1;
  id.s.space = request.port_space;
  id.s.qp_type = request.port_space == RDMA_PS_TCP  ? uint8_t{IBV_QPT_RC}
                 : request.port_space == RDMA_PS_IB ? request.qp_type
                                                    : uint8_t{IBV_QPT_UD};
  answer.id = id.number;
  answer.view = view(id);
  answer.testament = testament(id);
  return Done{};
}

Outcome Manager::destroy_id(Identifier& id, Answer& answer) {
  answer.events_reported = id.events_reported;
  answer.channel = id.channel;
  answer.events_dropped = remove_id(key_of(id));
  return Done{};
}

// How many events of its channel went with it.
uint32_t Manager::remove_id(Key key) {
  Identifier* id = find(key);
  if (!id) return 0;
  std::vector<Key> children;
  const uint32_t dropped = drop_events(id->client, id->channel, [&](const Queued& queued) {
    if (queued.id == key && queued.child != 0) children.push_back(queued.child);
    if (queued.child == key) find(queued.id)->backlog_left++;
    return queued.id == key || queued.child == key;
  });
  for (const Key child : children) remove_id(child);
  // Whoever guesses its number may have moved it away from the request that tells of it.
  const Identifier* listener = find(key_of(id->client, id->s.listener));
  if (listener && listener->channel != id->channel)
    drop_events(id->client, listener->channel, [&](const Queued& queued) {
      if (queued.child == key) find(queued.id)->backlog_left++;
      return queued.child == key;
    });
  searches_.erase(key);
  connections_.release(id->s.comm_id);
  ports_.release(key);
  for (const auto& [number, membership] : id->memberships) clients_.at(id->client).memberships.erase(number);
  ids_.erase(key);
  return dropped;
}

uint32_t Manager::drop_events(uint32_t client, uint32_t channel,
                              const std::function<bool(const Queued&)>& match) {
  auto& events = clients_.at(client).channels.at(channel).events;
  const auto kept = std::remove_if(events.begin(), events.end(), match);
  const auto dropped = static_cast<uint32_t>(events.end() - kept);
  events.erase(kept, events.end());
  return dropped;
}

Outcome Manager::migrate(Identifier& id, const Request& request, Answer& answer) {
  auto& channels = clients_.at(id.client).channels;
  const auto to = channels.find(request.channel);
  if (to == channels.end()) return Error{EINVAL, "no such channel"};
  answer.events_reported = id.events_reported;
  answer.channel = id.channel;
  if (id.channel == request.channel) return Done{};
  const Key key = key_of(id);
  std::vector<Queued> moved;
  answer.events_dropped = drop_events(id.client, id.channel, [&](const Queued& queued) {
    if (queued.id == key) moved.push_back(queued);
    return queued.id == key;
  });
  id.channel = request.channel;
  for (Queued& each : moved) {
    if (each.child != 0) find(each.child)->channel = request.channel;
    to->second.events.push_back(each);
    bell_.ring(id.client, id.channel);
  }
  return Done{};
}

Outcome Manager::write_event(Identifier& id, const Request& request) {
  if (request.value != RDMA_CM_EVENT_USER && request.value != RDMA_CM_EVENT_INTERNAL)
    return Error{EINVAL, "a program can write user events only"};
  Queued queued;
  queued.event = {};
  queued.event.type = request.value;
  queued.event.status = request.status;
  queued.event.argument = request.argument;
  queue(id, queued);
  return Done{};
}

// Events of an id that the program has not accepted would have no context: they are left out, and accepting
// it fails.
void Manager::queue(Identifier& id, Queued queued) {
  if (!id.s.accepted) return;
  queued.id = key_of(id);
  if (queued.event.id == 0) queued.event.id = id.number;
  if (queued.membership == 0) queued.event.context = id.context;
  if (queued.membership == 0 && queued.child == 0) id.untold++;
  clients_.at(id.client).channels.at(id.channel).events.push_back(queued);
  bell_.ring(id.client, id.channel);
}

void Manager::tell(Identifier& id, uint32_t type, int32_t status) {
  Queued queued;
  queued.event = {};
  queued.event.type = type;
  queued.event.status = status;
  queue(id, queued);
}

Testament Manager::testament(const Identifier& id) {
  Will will{};
  will.id = id.s;
  if (const Connection* connection = connections_.find(id.s.comm_id)) will.connection = *connection;
  const auto& events = clients_.at(id.client).channels.at(id.channel).events;
  uint32_t left = id.untold;
  for (auto each = events.rbegin(); left > 0 && each != events.rend(); ++each) {
    if (each->id != key_of(id) || each->child != 0 || each->membership != 0) continue;
    if (--left < Will::kUntoldMax) will.untold[left] = {each->event.type, each->event.status};
  }
  will.untold_count = std::min<uint32_t>(id.untold, Will::kUntoldMax);
  return testament_of(will);
}

Outcome Manager::restore(uint32_t client, const Request& request, Answer& answer) {
  Will will;
  if (request.id == 0 || !read_testament(request.testament, will) || !is_port_space(will.id.space))
    return Error{EINVAL, "not a testament of an id"};
  Expected<Identifier*> made = add_id(client, request.id, request.channel);
  if (!made) return made.error();
  Identifier& id = **made;
  id.context = request.context;
  if (Outcome back = take_back(id, will); !back) {
    remove_id(key_of(id));
    return back;
  }
  answer.view = view(id);
  answer.testament = testament(id);
  return Done{};
}

Outcome Manager::take_back(Identifier& id, const Will& will) {
  id.s = will.id;
  id.s.comm_id = 0;
  id.backlog_left = std::max(will.id.backlog, 0);
  if (id.s.owns_port) {
    if (id.s.source.port == 0) return Error{EINVAL, "not a testament of an id"};
    const PortTable::Claim claim{roce::cm::PortSpace{id.s.space}, id.s.source, id.s.reuse_address != 0,
                                 id.s.family_only != 0, false};
    const auto port = ports_.claim(key_of(id), claim, host_.ports(), 0);
    if (!port) return port.error();
    if (id.s.step == Step::kListening) {
      Outcome listening = ports_.listen(key_of(id));
      if (!listening) return listening;
    }
  }
  if (id.s.step == Step::kResolvingAddress) begin_search(id, kSearchAgainMs);
  Connection connection = will.connection;
  for (uint32_t i = 0; i < will.untold_count; i++)
    if (!step_back(connection, will.untold[i].type)) tell(id, will.untold[i].type, will.untold[i].status);
  if (will.id.comm_id != 0) {
    if (Outcome back = connections_.restore(key_of(id), connection); !back) return back;
    id.s.comm_id = will.id.comm_id;
  }
  connections_.somebody_came();
  return Done{};
}

}  // namespace verbatim::agent::cm
