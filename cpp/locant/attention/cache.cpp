#include "locant/attention/cache.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "locant/attention/cache_state.hpp"
#include "locant/memory.hpp"

namespace locant {
namespace {

// Room beyond the limit of a fixed cache, so that holes are closed every now and then and not every step.
std::size_t slack(std::size_t rows) { return rows / 8 + KeyValueStore::kPanel; }

std::size_t valid_tokens(const Positions& tokens, std::int32_t row) {
  if (tokens.all_valid()) return tokens.row_length(row);
  const auto valid = tokens.valid().subspan(tokens.row_begin(row), tokens.row_length(row));
  return valid.size() - static_cast<std::size_t>(std::count(valid.begin(), valid.end(), std::uint8_t{0}));
}

bool before_segment(const SegmentEnd& end, std::int32_t segment) noexcept { return end.segment < segment; }

void require_turnable(const char* call, const Rotation* rotation) {
  if (rotation == nullptr) return;
  if (rotation->plan().xpos || rotation->plan().axes() > 1) {
    fail(ErrorCode::kUnsupported, call, ": keys turned by a plan with ",
         rotation->plan().xpos ? "xPos scales" : "several axes", " cannot be turned to other positions");
  }
}

}  // namespace

// ---- sequences ----------------------------------------------------------------------------------------

std::size_t CachedSequence::slot_of(std::size_t row) const noexcept {
  if (rows == slots()) return row;
  std::size_t slot = 0;
  for (;; ++slot) {
    if (valid[slot] != 0 && row-- == 0) return slot;
  }
}

void CachedSequence::compact() noexcept {
  if (rows == slots()) return;
  blocks.changed_from(0);
  std::size_t to = 0;
  for (std::size_t from = 0; from < slots(); ++from) {
    if (valid[from] == 0) continue;
    if (from != to) {
      for (auto& axis : position) axis[to] = axis[from];
      order[to] = order[from];
      segment[to] = segment[from];
      valid[to] = 1;
      valid[from] = 0;  // moved: what is cut off below counts as nothing
      for (KeyValueStore& layer : layers) layer.copy_row(from, to);
    }
    ++to;
  }
  cut(to);
}

SegmentEnd CachedSequence::end_of(std::int32_t which) const noexcept {
  const auto at = std::lower_bound(ends.begin(), ends.end(), which, before_segment);
  return at != ends.end() && at->segment == which ? *at : SegmentEnd{.segment = which};
}

void CachedSequence::set_end(const SegmentEnd& end) noexcept {
  const auto at = std::lower_bound(ends.begin(), ends.end(), end.segment, before_segment);
  const bool is_there = at != ends.end() && at->segment == end.segment;
  if (end.rows == 0) {
    if (is_there) ends.erase(at);
  } else if (is_there) {
    *at = end;
  } else {
    ends.insert(at, end);
  }
}

bool CachedSequence::remove(std::size_t slot) noexcept {
  valid[slot] = 0;
  blocks.changed_from(slot);
  --rows;
  const auto end = std::lower_bound(ends.begin(), ends.end(), segment[slot], before_segment);
  if (--end->rows == 0) {
    ends.erase(end);
    return true;
  }
  bool is_inside = order[slot] < end->order && position[0][slot] < end->position;
  for (const auto& axis : position) is_inside = is_inside && axis[slot] < end->furthest;
  return is_inside;
}

void CachedSequence::make_room(std::int32_t axes, std::size_t count, std::size_t segments) {
  if (rows == 0) position.resize(static_cast<std::size_t>(axes));
  const auto grow = [](auto& array, std::size_t wanted) {
    if (wanted > array.capacity()) array.reserve(std::max(wanted, 2 * array.capacity()));
  };
  for (auto& axis : position) grow(axis, count);
  grow(order, count);
  grow(segment, count);
  grow(valid, count);
  grow(ends, ends.size() + segments);
}

void CachedSequence::cut(std::size_t count) noexcept {
  for (std::size_t s = count; s < slots(); ++s) rows -= valid[s];
  for (auto& axis : position) axis.resize(count);
  order.resize(count);
  segment.resize(count);
  valid.resize(count);
  for (KeyValueStore& layer : layers) layer.resize(count);
}

void CachedSequence::find_ends() {
  // As many segments as before or fewer, so that nothing is allocated; runs of one are looked up once.
  ends.clear();
  for (std::size_t slot = 0; slot < slots();) {
    if (valid[slot] == 0) {
      ++slot;
      continue;
    }
    SegmentEnd end = end_of(segment[slot]);
    for (; slot < slots() && (valid[slot] == 0 || segment[slot] == end.segment); ++slot) {
      if (valid[slot] == 0) continue;
      end.order = std::max(end.order, order[slot]);
      end.position = std::max(end.position, position[0][slot]);
      for (const auto& axis : position) end.furthest = std::max(end.furthest, axis[slot]);
      ++end.rows;
    }
    set_end(end);
  }
}

// ---- the cache's own checks ---------------------------------------------------------------------------

std::size_t Cache::State::limit() const noexcept {
  return config.capacity == Capacity::kFixed ? static_cast<std::size_t>(config.rows)
                                             : static_cast<std::size_t>(kMaxPosition);
}

CachedSequence& Cache::State::sequence(const char* call, std::int32_t index) {
  require_range(call, "sequence", index, 0, config.sequences - 1);
  return sequences[static_cast<std::size_t>(index)];
}

const CachedSequence& Cache::State::sequence(const char* call, std::int32_t index) const {
  return const_cast<State*>(this)->sequence(call, index);
}

void Cache::State::settle(const char* call) {
  if (open && layers_written < written.size()) {
    const auto missing = std::find(written.begin(), written.end(), std::uint8_t{0}) - written.begin();
    throw Error(ErrorCode::kCacheState,
                sentence(call, ": layer ", missing, " has not written the open step (", layers_written, " of ",
                         written.size(), " layers have); write it or cancel the step"),
                static_cast<double>(missing), static_cast<double>(written.size()));
  }
  open = false;
  ++serial;
}

void Cache::State::forget_plans_if_empty() noexcept {
  for (const CachedSequence& s : sequences) {
    if (s.rows > 0) return;
  }
  axes = 0;
  for (LayerPlan& plan : plans) plan = {};
}

// ---- construction -------------------------------------------------------------------------------------

Cache::Cache(CacheConfig config) : state_(std::make_unique<State>()) {
  AttentionShape shape = config.shape;
  shape.heads = std::max(shape.kv_heads, 1);
  require_shape("Cache", shape);
  require_range("Cache", "layers", config.layers, 1, 65536);
  require_range("Cache", "sequences", config.sequences, 1, 1 << 20);
  require_range("Cache", "rows", config.rows, config.capacity == Capacity::kFixed ? 1 : 0, kMaxPosition);
  require_range("Cache", "layers x sequences", std::int64_t{config.layers} * config.sequences, 1, 1 << 24);
  config.shape.heads = shape.heads;
  state_->config = config;
  auto reserved = static_cast<std::size_t>(config.rows);
  if (config.capacity == Capacity::kFixed) reserved += slack(reserved);
  const double stores = static_cast<double>(config.layers) * config.sequences;
  const double bytes =
      stores * (sizeof(KeyValueStore) + KeyValueStore(shape.kv_heads, shape.head_dim, shape.value_dim).bytes_of(reserved));
  with_memory("Cache", bytes, [&] { make(reserved); });
}

void Cache::make(std::size_t reserved) {
  const CacheConfig& config = state_->config;
  const AttentionShape& shape = config.shape;
  state_->plans.resize(static_cast<std::size_t>(config.layers));
  state_->written.assign(static_cast<std::size_t>(config.layers), 0);
  state_->sequences.resize(static_cast<std::size_t>(config.sequences));
  for (CachedSequence& sequence : state_->sequences) {
    sequence.position.resize(1);
    sequence.layers.reserve(static_cast<std::size_t>(config.layers));
    for (std::int32_t l = 0; l < config.layers; ++l) {
      sequence.layers.emplace_back(shape.kv_heads, shape.head_dim, shape.value_dim);
      sequence.layers.back().reserve(reserved);
    }
  }
}

Cache::~Cache() = default;
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;

// ---- what it holds ------------------------------------------------------------------------------------

const CacheConfig& Cache::config() const noexcept { return state_->config; }

std::size_t Cache::rows(std::int32_t sequence) const { return state_->sequence("Cache::rows", sequence).rows; }

std::uint64_t Cache::revision() const noexcept { return state_->serial; }

std::size_t Cache::capacity(std::int32_t sequence) const {
  const CachedSequence& s = state_->sequence("Cache::capacity", sequence);
  return std::min(s.layers.front().capacity(), state_->limit());
}

std::size_t Cache::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const CachedSequence& s : state_->sequences) {
    for (const KeyValueStore& layer : s.layers) bytes += layer.bytes();
    bytes += s.slots() * (sizeof(std::int32_t) * (s.position.size() + 2) + 1);
  }
  return bytes;
}

Positions Cache::positions(std::int32_t sequence) const {
  const CachedSequence& s = state_->sequence("Cache::positions", sequence);
  PositionArrays arrays = PositionArrays::with_room("Cache::positions", 1, static_cast<std::int64_t>(s.rows),
                                                    static_cast<std::int32_t>(s.position.size()));
  arrays.row_lengths = {static_cast<std::int32_t>(s.rows)};
  for (std::size_t slot = 0; slot < s.slots(); ++slot) {
    if (s.valid[slot] == 0) continue;
    for (std::size_t a = 0; a < s.position.size(); ++a) arrays.position[a].push_back(s.position[a][slot]);
    arrays.order.push_back(s.order[slot]);
    arrays.segment.push_back(s.segment[slot]);
  }
  return Positions::from_arrays(std::move(arrays));
}

Positions Cache::next(std::span<const std::int32_t> counts, std::span<const std::int32_t> sequences) const {
  if (!sequences.empty()) require_size("Cache::next", "sequences", sequences.size(), counts.size(), "one for each count");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) {
      require_range("Cache::next", sentence("the count of sequence ", sequences.empty() ? static_cast<std::int32_t>(i) : sequences[i]),
                    counts[i], 0, kMaxPosition);
    }
    total += counts[i];
  }
  PositionArrays arrays = PositionArrays::with_room("Cache::next", counts.size(), total, std::max(state_->axes, 1));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int32_t index = sequences.empty() ? static_cast<std::int32_t>(i) : sequences[i];
    const CachedSequence& s = state_->sequence("Cache::next", index);
    // Only the last segment goes on, at one past its largest position over all axes.
    const std::int32_t segment = s.rows == 0 ? 0 : s.segment.back();
    const SegmentEnd end = s.end_of(segment);
    const std::int64_t position = std::int64_t{end.furthest} + 1, order = std::int64_t{end.order} + 1;
    const std::int64_t furthest = std::max(position, order) + counts[i] - 1;
    if (counts[i] > 0 && furthest > kMaxPosition) {
      throw Error(ErrorCode::kPositionRange,
                  sentence("Cache::next: ", counts[i], " more tokens of sequence ", index, " would reach ", furthest,
                           ", past ", kMaxPosition),
                  static_cast<double>(furthest), kMaxPosition);
    }
    for (std::int32_t n = 0; n < counts[i]; ++n) {
      for (auto& axis : arrays.position) axis.push_back(static_cast<std::int32_t>(position + n));
      arrays.order.push_back(static_cast<std::int32_t>(order + n));
      arrays.segment.push_back(segment);
    }
    arrays.row_lengths.push_back(counts[i]);
  }
  return Positions::from_arrays(std::move(arrays));
}

// ---- steps --------------------------------------------------------------------------------------------

void Cache::State::check_step(const Positions& tokens, std::span<const std::int32_t> given) {
  constexpr const char* kCall = "Cache::begin";
  if (axes != 0 && tokens.axes() != axes) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": the tokens have ", tokens.axes(), " position axes, the cache holds ",
                axes), tokens.axes(), axes);
  }
  next_rows.clear();
  next_changes.clear();
  ++begun;
  for (std::int32_t r = 0; r < tokens.rows(); ++r) {
    StepRow row;
    row.sequence = given.empty() ? r : given[static_cast<std::size_t>(r)];
    row.added = valid_tokens(tokens, r);
    row.first_change = next_changes.size();
    CachedSequence& s = sequence(kCall, row.sequence);
    if (std::exchange(s.named_by, begun) == begun) {
      fail(ErrorCode::kArgument, kCall, ": sequence ", row.sequence, " is named by two rows of tokens");
    }
    if (s.rows + row.added > limit()) {
      throw Error(ErrorCode::kCacheFull,
                  sentence(kCall, ": sequence ", row.sequence, " holds ", s.rows, " rows and ", row.added,
                           " more would pass its capacity of ", limit()),
                  static_cast<double>(s.rows + row.added), static_cast<double>(limit()));
    }
    Change* change = nullptr;  // of the segment that the tokens before were of
    for (std::size_t t = tokens.row_begin(r); t < tokens.row_end(r); ++t) {
      if (tokens.valid()[t] == 0) continue;
      const std::int32_t segment = tokens.segment()[t];
      if (change == nullptr || change->after.segment != segment) {
        const auto first = next_changes.begin() + static_cast<std::ptrdiff_t>(row.first_change);
        auto at = std::lower_bound(first, next_changes.end(), segment,
                                   [](const Change& c, std::int32_t which) { return c.after.segment < which; });
        if (at == next_changes.end() || at->after.segment != segment) {
          const SegmentEnd end = s.end_of(segment);
          row.new_segments += end.rows == 0 ? 1 : 0;
          at = next_changes.insert(at, {end, end});
        }
        change = &*at;
      }
      SegmentEnd& end = change->after;
      const std::int32_t order = tokens.order()[t], position = tokens.position()[t];
      if (order <= end.order) {
        throw Error(ErrorCode::kOrder,
                    sentence(kCall, ": token ", t, " of sequence ", row.sequence, " has order ", order,
                             ", but its segment already reaches ", end.order),
                    order, end.order);
      }
      if (position < end.position && config.backward == BackwardPositions::kRefuse) {
        throw Error(ErrorCode::kOrder,
                    sentence(kCall, ": token ", t, " of sequence ", row.sequence, " stands at position ", position,
                             ", but its segment already reaches ", end.position,
                             " (an offset that goes backwards; allow it in the configuration if it is meant)"),
                    position, end.position);
      }
      end.order = order;
      end.position = std::max(end.position, position);
      for (std::int32_t a = 0; a < tokens.axes(); ++a) end.furthest = std::max(end.furthest, tokens.position(a)[t]);
      ++end.rows;
    }
    next_rows.push_back(row);
  }
}

void Cache::State::reserve_layers(CachedSequence& s, std::size_t rows) const {
  // All that grows, and beside it the old place of one layer at a time.
  double grown = 0, moved = 0;
  for (const KeyValueStore& layer : s.layers) {
    if (layer.capacity() >= rows) continue;
    grown += layer.bytes_of(rows) - static_cast<double>(layer.bytes());
    moved = std::max(moved, static_cast<double>(layer.bytes()));
  }
  require_memory("Cache::begin", grown + moved);
  for (KeyValueStore& layer : s.layers) layer.reserve(rows);
}

CacheStep Cache::begin(Positions tokens, std::span<const std::int32_t> sequences) {
  constexpr const char* kCall = "Cache::begin";
  State& state = *state_;
  if (state.open && state.layers_written < state.written.size()) state.settle(kCall);  // throws
  const auto rows = static_cast<std::size_t>(tokens.rows());
  if (!sequences.empty()) require_size(kCall, "sequences", sequences.size(), rows, "one for each row of tokens");
  // All checks before any change, and all room before any token, so that what follows cannot fail.
  state.check_step(tokens, sequences);
  CacheStep step;
  step.sequences_.reserve(rows);
  for (const State::StepRow& row : state.next_rows) step.sequences_.push_back(row.sequence);
  for (State::StepRow& row : state.next_rows) {
    CachedSequence& s = state.sequences[static_cast<std::size_t>(row.sequence)];
    const auto fits = [&] {
      const std::size_t needed = s.slots() + row.added;
      return needed <= s.layers.front().capacity() && needed <= s.layers.back().capacity();
    };
    if (!fits()) s.compact();
    if (!fits()) {
      const std::size_t needed = s.slots() + row.added;
      try {
        state.reserve_layers(s, state.config.capacity == Capacity::kGrowing ? needed + needed / 2 : needed);
      } catch (const Error&) {  // no more than what is needed, then
        state.reserve_layers(s, needed);
      }
    }
    s.make_room(tokens.axes(), s.slots() + row.added, row.new_segments);
    row.slots_before = s.slots();
  }

  state.settle(kCall);
  state.axes = tokens.axes();
  std::swap(state.step_rows, state.next_rows);
  std::swap(state.changes, state.next_changes);
  std::size_t change = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const State::StepRow& row = state.step_rows[r];
    CachedSequence& s = state.sequences[static_cast<std::size_t>(row.sequence)];
    const auto which = static_cast<std::int32_t>(r);
    s.blocks.changed_from(s.slots());  // the new tokens, and what was cut off since the last step
    for (std::size_t t = tokens.row_begin(which); t < tokens.row_end(which); ++t) {
      if (tokens.valid()[t] == 0) continue;
      for (std::int32_t a = 0; a < tokens.axes(); ++a) s.position[static_cast<std::size_t>(a)].push_back(tokens.position(a)[t]);
      s.order.push_back(tokens.order()[t]);
      s.segment.push_back(tokens.segment()[t]);
      s.valid.push_back(1);
    }
    s.rows += row.added;
    for (const std::size_t end = r + 1 < rows ? state.step_rows[r + 1].first_change : state.changes.size(); change < end; ++change) {
      s.set_end(state.changes[change].after);
    }
    for (KeyValueStore& layer : s.layers) layer.resize(s.slots());
  }
  state.open = true;
  std::fill(state.written.begin(), state.written.end(), std::uint8_t{0});
  state.layers_written = 0;
  step.positions_ = std::move(tokens);
  step.serial_ = state.serial;
  return step;
}

void Cache::cancel(const CacheStep& step) {
  State& state = *state_;
  if (!state.open || step.serial_ != state.serial) {
    fail(ErrorCode::kCacheState, "Cache::cancel: this step is not the open one");
  }
  std::size_t change = 0;
  bool is_empty = true;
  for (std::size_t r = 0; r < state.step_rows.size(); ++r) {
    const State::StepRow& row = state.step_rows[r];
    CachedSequence& s = state.sequences[static_cast<std::size_t>(row.sequence)];
    s.cut(row.slots_before);
    const std::size_t end = r + 1 < state.step_rows.size() ? state.step_rows[r + 1].first_change : state.changes.size();
    for (; change < end; ++change) s.set_end(state.changes[change].before);
    is_empty = is_empty && s.rows == 0;
  }
  state.open = false;
  ++state.serial;
  if (is_empty) state.forget_plans_if_empty();
}

// ---- changes ------------------------------------------------------------------------------------------

void Cache::truncate(std::int32_t sequence, std::size_t rows) {
  CachedSequence& s = state_->sequence("Cache::truncate", sequence);
  if (rows > s.rows) {
    throw Error(ErrorCode::kCacheState,
                sentence("Cache::truncate: cannot keep ", rows, " rows of sequence ", sequence, ", which holds ", s.rows),
                static_cast<double>(rows), static_cast<double>(s.rows));
  }
  state_->settle("Cache::truncate");
  if (rows == s.rows) return;
  s.cut(rows == 0 ? 0 : s.slot_of(rows - 1) + 1);
  s.find_ends();
  state_->forget_plans_if_empty();
}

void Cache::evict(std::int32_t sequence, std::span<const std::size_t> rows) {
  CachedSequence& s = state_->sequence("Cache::evict", sequence);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= s.rows || (i > 0 && rows[i] <= rows[i - 1])) {
      throw Error(ErrorCode::kCacheState,
                  sentence("Cache::evict: row ", rows[i], " of sequence ", sequence,
                           ", expected ascending row numbers below ", s.rows),
                  static_cast<double>(rows[i]), static_cast<double>(s.rows));
    }
  }
  state_->settle("Cache::evict");
  std::size_t row = 0, at = 0;
  bool ends_hold = true;
  for (std::size_t slot = 0; slot < s.slots() && at < rows.size(); ++slot) {
    if (s.valid[slot] == 0 || row++ != rows[at]) continue;
    ends_hold = s.remove(slot) && ends_hold;
    ++at;
  }
  std::size_t tail = s.slots();  // holes at the end need not wait
  while (tail > 0 && s.valid[tail - 1] == 0) --tail;
  s.cut(tail);
  if (!ends_hold) s.find_ends();
  if (s.rows == 0) state_->forget_plans_if_empty();
}

void Cache::keep_window(std::int32_t sequence, std::size_t sinks, std::size_t window) {
  const CachedSequence& s = state_->sequence("Cache::keep_window", sequence);
  std::vector<std::size_t> gone;
  if (s.rows > window) {
    for (std::size_t row = std::min(sinks, s.rows); row < s.rows - window; ++row) gone.push_back(row);
  }
  evict(sequence, gone);
}

void Cache::clear(std::int32_t sequence) {
  CachedSequence& s = state_->sequence("Cache::clear", sequence);
  state_->settle("Cache::clear");
  s.cut(0);
  s.find_ends();
  state_->forget_plans_if_empty();
}

void Cache::fork(std::int32_t from, std::int32_t to) {
  const CachedSequence& source = state_->sequence("Cache::fork", from);
  CachedSequence& target = state_->sequence("Cache::fork", to);
  if (state_->open && state_->layers_written < state_->written.size()) state_->settle("Cache::fork");  // throws
  if (from == to) return;
  double bytes = 0;
  for (const KeyValueStore& layer : source.layers) bytes += static_cast<double>(layer.bytes());
  CachedSequence copy = with_memory("Cache::fork", bytes, [&] { return copy_of(source); });
  state_->settle("Cache::fork");
  target = std::move(copy);
}

CachedSequence Cache::copy_of(const CachedSequence& source) const {
  CachedSequence copy;
  copy.position = source.position;
  copy.order = source.order;
  copy.segment = source.segment;
  copy.valid = source.valid;
  copy.rows = source.rows;
  copy.ends = source.ends;
  const AttentionShape& shape = state_->config.shape;
  copy.layers.reserve(source.layers.size());
  for (const KeyValueStore& layer : source.layers) {
    copy.layers.emplace_back(shape.kv_heads, shape.head_dim, shape.value_dim);
    copy.layers.back().reserve(layer.capacity());
    copy.layers.back().assign(layer);
  }
  return copy;
}

namespace {

// Moves the positions of rows [first, last) to `where(position)` and turns their keys with them.
template <class Where>
void move_rows(const char* call, Cache::State& state, std::int32_t sequence, std::size_t first, std::size_t last,
               Cache::PositionsIn positions_in, Where where) {
  CachedSequence& s = state.sequence(call, sequence);
  if (first > last || last > s.rows) {
    throw Error(ErrorCode::kCacheState, sentence(call, ": rows ", first, " to ", last, " of sequence ", sequence,
                ", which holds ", s.rows), static_cast<double>(last), static_cast<double>(s.rows));
  }
  if (positions_in == Cache::PositionsIn::kInput) {
    fail(ErrorCode::kUnsupported, call, ": positions that were added to the input are baked into keys and values",
         " and cannot be moved; compute the rows again");
  }
  if (s.position.size() > 1) {
    fail(ErrorCode::kUnsupported, call, ": rows with ", s.position.size(), " position axes cannot be moved along one");
  }
  for (const auto& plan : state.plans) require_turnable(call, plan.rotation.get());
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0, row = 0; slot < s.slots() && row < last; ++slot) {
    if (s.valid[slot] != 0 && row++ >= first) slots.push_back(slot);
  }
  for (const std::size_t slot : slots) {
    const std::int64_t to = where(std::int64_t{s.position[0][slot]});
    if (to < 0 || to > kMaxPosition) {
      throw Error(ErrorCode::kPositionRange, sentence(call, ": position ", s.position[0][slot], " would become ", to,
                  ", outside 0 to ", kMaxPosition), static_cast<double>(to), to < 0 ? 0 : kMaxPosition);
    }
  }
  state.settle(call);
  std::vector<float> key(static_cast<std::size_t>(state.config.shape.head_dim));
  const bool turn = state.config.keys == KeyStorage::kRotated;
  for (const std::size_t slot : slots) {
    const std::int64_t from = s.position[0][slot], to = where(from);
    s.position[0][slot] = static_cast<std::int32_t>(to);
    if (!turn || to == from) continue;
    for (std::size_t l = 0; l < s.layers.size(); ++l) {
      const Rotation* rotation = state.plans[l].rotation.get();
      if (rotation == nullptr) continue;
      for (std::int32_t g = 0; g < state.config.shape.kv_heads; ++g) {
        s.layers[l].read_key(g, slot, key.data());
        rotation->advance_key(key, to - from);
        s.layers[l].write_key(g, slot, key.data());
      }
    }
  }
  s.find_ends();
}

}  // namespace

void Cache::shift(std::int32_t sequence, std::size_t first, std::size_t last, std::int64_t delta,
                  PositionsIn positions_in) {
  require_range("Cache::shift", "delta", delta, -std::int64_t{kMaxPosition}, kMaxPosition);
  move_rows("Cache::shift", *state_, sequence, first, last, positions_in,
            [delta](std::int64_t p) { return p + delta; });
}

void Cache::divide(std::int32_t sequence, std::size_t first, std::size_t last, std::int32_t divisor,
                   PositionsIn positions_in) {
  require_range("Cache::divide", "divisor", divisor, 1, kMaxPosition);
  move_rows("Cache::divide", *state_, sequence, first, last, positions_in,
            [divisor](std::int64_t p) { return p / divisor; });
}

void Cache::read(std::int32_t sequence, std::int32_t layer, std::int32_t kv_head, std::size_t row,
                 std::span<float> key, std::span<float> value) const {
  const CachedSequence& s = state_->sequence("Cache::read", sequence);
  const AttentionShape& shape = state_->config.shape;
  require_range("Cache::read", "layer", layer, 0, state_->config.layers - 1);
  require_range("Cache::read", "kv_head", kv_head, 0, shape.kv_heads - 1);
  require_range("Cache::read", "row", static_cast<std::int64_t>(row), 0, static_cast<std::int64_t>(s.rows) - 1);
  require_size("Cache::read", "key", key.size(), static_cast<std::size_t>(shape.head_dim), "head_dim");
  require_size("Cache::read", "value", value.size(), static_cast<std::size_t>(shape.value_dim), "value_dim");
  const std::size_t slot = s.slot_of(row);
  s.layers[static_cast<std::size_t>(layer)].read_key(kv_head, slot, key.data());
  s.layers[static_cast<std::size_t>(layer)].read_value(kv_head, slot, value.data());
}

}  // namespace locant
