#include "locant/decoder/audit_tests.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "locant/decoder/random.hpp"

namespace locant {
namespace {

constexpr const char* kCall = "run_audit_tests";
constexpr std::int32_t kContinued = 4;  // tokens that go on after an eviction or a padded prompt

using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<float>;

// Largest difference and largest reference met so far.
struct Residual {
  double difference = 0, reference = 0;
  std::string where;

  void compare(std::span<const float> got, std::span<const float> expected, const std::function<std::string()>& place) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      reference = std::max(reference, std::abs(static_cast<double>(expected[i])));
      const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
      if (d <= difference) continue;  // false for NaN, which is then kept as the largest of all
      if (std::isnan(difference)) continue;
      difference = d;
      where = place();
    }
  }
  double value() const { return difference == 0 ? 0 : difference / (reference > 0 ? reference : 1); }
};

Positions from(Tokens position, Tokens order, Tokens segment = {}, std::vector<std::uint8_t> valid = {}) {
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(position.size())};
  arrays.position = {std::move(position)};
  arrays.order = std::move(order);
  arrays.segment = std::move(segment);
  arrays.valid = std::move(valid);
  return Positions::from_arrays(std::move(arrays));
}

Tokens counting(std::int32_t first, std::int32_t count) {
  Tokens out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

class Audit {
 public:
  Audit(Decoder& decoder, const AuditOptions& options)
      : decoder_(decoder), options_(options), vocabulary_(static_cast<std::size_t>(decoder.config().vocabulary)) {}

  AuditReport run() {
    report_.methods = describe_methods(decoder_.config());
    report_.fault = options_.fault;
    move_content();
    cached_vs_full();
    after_eviction();
    padding();
    padded_tokens();
    packed_documents();
    causal();
    return std::move(report_);
  }

 private:
  // ---- the seven tests --------------------------------------------------------------------------------

  void move_content() {
    // What makes the location count: the input, attention temperature, a term that is not of displacement alone.
    std::string reader;
    if (!std::holds_alternative<std::monostate>(decoder_.config().input_position)) reader = report_.methods.front().method.name;
    for (const LayerConfig& layer : decoder_.config().layers) {
      if (!reader.empty()) break;
      if (layer.temperature) reader = "attention temperature";
      for (const auto& term : layer.score_terms) {
        if (reader.empty() && term->moves_weights()) reader = term->describe().name;
      }
    }
    const bool location_counts = !reader.empty();
    AuditLine line;
    line.test = "move-content";
    line.claim = sentence("logits of ", length(), " tokens at positions ", options_.move, " and on ",
                          location_counts ? "differ from" : "equal", " those at 0 and on");
    line.expectation = location_counts ? Expectation::kDifferent : Expectation::kEqual;
    if (location_counts) line.note = sentence(reader, " reads absolute positions");
    const auto* table = std::get_if<TableConfig>(&decoder_.config().input_position);
    const std::int64_t end = std::int64_t{options_.move} + length();
    if (table != nullptr && table->past_end != PastEnd::kClamp) {
      const std::int64_t held = table->past_end == PastEnd::kInterpolate ? table->length : std::int64_t{table->rows} - table->indexing.first_row;
      if (end > held) return not_applicable(std::move(line), sentence("the position table ends at ", held, " positions"));
    }
    const Tokens content = tokens(0, length());
    // Only positions move: orders, and with them masks, stay.
    const Logits here = full(content, from(counting(0, length()), counting(0, length())));
    const Logits there = full(content, from(counting(options_.move, length()), counting(0, length())));
    Residual residual;
    compare_tokens(residual, there, here, [](std::size_t t) { return sentence("token ", t); });
    finish(std::move(line), residual, options_.tolerance);
  }

  void cached_vs_full() {
    const Tokens content = tokens(1, length());
    const Logits expected = full(content, Positions::range(length()));
    Residual residual;
    // First chunk and those after it. Where all are equal, being ahead by a chunk is the same shift for all tokens,
    // which relative methods cannot see; so the first is another.
    const std::pair<std::int32_t, std::int32_t> splits[] = {{length() / 2, 1}, {5, 3}, {1, 1}};
    for (const auto& [first, later] : splits) {
      const Logits got = stepwise(content, first, later);
      compare_tokens(residual, got, expected, [&, first = first, later = later](std::size_t t) {
        return sentence("token ", t, ", first ", first, " tokens, then by ", later);
      });
    }
    AuditLine line;
    line.test = "cached-vs-full";
    line.claim = sentence("logits of ", length(), " tokens (first ", length() / 2, ", then one by one; 5, then by 3; one by one) equal those of the full forward");
    finish(std::move(line), residual, options_.tolerance);
  }

  // The content by steps, at true positions or as the fault has it.
  Logits stepwise(const Tokens& content, std::int32_t first_chunk, std::int32_t later_chunk) {
    const auto layers = static_cast<std::int32_t>(decoder_.config().layers.size());
    const bool ahead = options_.fault == PositionFault::kUpperLayersAhead && layers > 1;
    Cache cache = faulty_cache(ahead ? 1 : layers, 1);
    Cache upper = faulty_cache(ahead ? layers - 1 : 1, 1);
    Logits out;
    const auto count = static_cast<std::int32_t>(content.size());
    std::int32_t here = first_chunk;
    for (std::int32_t first = 0; first < count; first += here, here = later_chunk) {
      here = std::min(here, count - first);
      std::int32_t position = first;
      if (first > 0 && options_.fault == PositionFault::kOffsetRestarted) position = 0;
      if (first > 0 && options_.fault == PositionFault::kOffByOne) ++position;
      const std::span<const std::int32_t> part = std::span(content).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(here));
      const Positions places = from(counting(position, here), counting(first, here));
      if (!ahead) {
        append(out, cached(part, places, cache));
        continue;
      }
      const CacheStep step = cache.begin(places);
      const CacheStep ahead_step = upper.begin(from(counting(first + here, here), counting(first, here)));
      std::vector<LayerRoute> routes = {{&cache, &step, 0}};
      for (std::int32_t i = 1; i < layers; ++i) routes.push_back({&upper, &ahead_step, i - 1});
      const std::vector<std::size_t> wanted = valid_tokens(places);
      Logits logits(wanted.size() * vocabulary_);
      decoder_.forward(part, places, routes, wanted, logits);
      append(out, logits);
    }
    return out;
  }

  void after_eviction() {
    const std::int32_t kept_ends = length() / 4;  // rows kept at either end
    const Tokens content = tokens(2, length() + kContinued);
    const auto prompt = std::span(content).first(static_cast<std::size_t>(length()));
    Cache cache = faulty_cache(static_cast<std::int32_t>(decoder_.config().layers.size()), 1);
    cached(prompt, Positions::range(length()), cache);
    std::vector<std::size_t> gone;
    for (std::int32_t i = kept_ends; i < length() - kept_ends; ++i) gone.push_back(static_cast<std::size_t>(i));
    cache.evict(0, gone);
    Logits got;
    for (std::int32_t i = 0; i < kContinued; ++i) {
      const bool rows_as_positions = options_.fault == PositionFault::kRowsTakenForPositions;
      const auto position = rows_as_positions ? static_cast<std::int32_t>(cache.rows(0)) : length() + i;
      append(got, cached(std::span(content).subspan(static_cast<std::size_t>(length() + i), 1), from({position}, {length() + i}), cache));
    }
    // The same in one forward: tokens after the eviction do not see the evicted ones, those before it did.
    const std::size_t all = content.size();
    std::vector<std::uint8_t> visible(all * all, 1);
    for (std::size_t q = static_cast<std::size_t>(length()); q < all; ++q) {
      for (const std::size_t row : gone) visible[q * all + row] = 0;
    }
    std::vector<std::size_t> wanted;
    for (std::size_t t = static_cast<std::size_t>(length()); t < all; ++t) wanted.push_back(t);
    Logits expected(wanted.size() * vocabulary_);
    decoder_.forward(content, Positions::range(static_cast<std::int64_t>(all)), wanted, expected, CallMask{{}, visible});
    Residual residual;
    compare_tokens(residual, got, expected, [&](std::size_t t) { return sentence("token ", static_cast<std::size_t>(length()) + t); });
    AuditLine line;
    line.test = "after-eviction";
    line.claim = sentence("logits of ", kContinued, " tokens after rows ", kept_ends, " to ", length() - kept_ends - 1, " of ",
                          length(), " are evicted equal those of a full forward in which they do not see these rows");
    finish(std::move(line), residual, options_.tolerance);
  }

  void padding() {
    const std::int32_t lengths[] = {length(), length() / 2, length() - 3, 1};
    constexpr std::int32_t kRows = 4;
    std::vector<Tokens> contents;
    for (std::int32_t r = 0; r < kRows; ++r) contents.push_back(tokens(10 + static_cast<std::uint64_t>(r), lengths[r] + kContinued));
    const std::int32_t columns = length() + 2;
    Residual residual;
    for (const PaddingSide side : {PaddingSide::kLeft, PaddingSide::kRight}) {
      const char* name = side == PaddingSide::kLeft ? "left" : "right";
      Tokens batch = tokens(20, columns * kRows);  // whatever stands at padded tokens
      for (std::int32_t r = 0; r < kRows; ++r) {
        const std::int32_t first = side == PaddingSide::kLeft ? columns - lengths[r] : 0;
        std::copy_n(contents[static_cast<std::size_t>(r)].begin(), lengths[r], batch.begin() + r * columns + first);
      }
      const Positions right = Positions::padded(lengths, columns, side);
      const Positions places = options_.fault == PositionFault::kPaddingCounted ? columns_as_positions(right, columns) : right;
      Cache cache = faulty_cache(static_cast<std::int32_t>(decoder_.config().layers.size()), kRows);
      const Logits uncached = full(batch, places);
      std::vector<Logits> got(kRows);
      split_rows(got, cached(batch, places, cache), places);
      std::vector<Logits> alone_uncached(kRows);
      split_rows(alone_uncached, uncached, places);
      for (std::int32_t i = 0; i < kContinued; ++i) {
        Tokens step, position, order;
        for (std::int32_t r = 0; r < kRows; ++r) {
          step.push_back(contents[static_cast<std::size_t>(r)][static_cast<std::size_t>(lengths[r] + i)]);
          position.push_back((options_.fault == PositionFault::kPaddingCounted ? columns : lengths[r]) + i);
          order.push_back(lengths[r] + i);
        }
        PositionArrays arrays;
        arrays.row_lengths.assign(kRows, 1);
        arrays.position = {position};
        arrays.order = order;
        const Positions next = Positions::from_arrays(std::move(arrays));
        split_rows(got, cached(step, next, cache), next);
      }
      for (std::int32_t r = 0; r < kRows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        const Logits alone = full(contents[row], Positions::range(lengths[r] + kContinued));
        const auto place = [&](std::size_t t) { return sentence("token ", t, " of row ", r, ", padded ", name); };
        compare_tokens(residual, got[row], alone, place);
        compare_tokens(residual, alone_uncached[row], std::span(alone).first(alone_uncached[row].size()), place);
      }
    }
    AuditLine line;
    line.test = "padding";
    line.claim = sentence("logits of rows of ", lengths[0], ", ", lengths[1], ", ", lengths[2], " and 1 tokens in ", columns,
                          " columns, padded left or right, then ", kContinued, " decoded tokens, equal each row's alone");
    finish(std::move(line), residual, options_.tolerance);
  }

  // Valid tokens stand at their column; order stays what it was.
  static Positions columns_as_positions(const Positions& right, std::int32_t columns) {
    PositionArrays arrays;
    arrays.row_lengths.assign(static_cast<std::size_t>(right.rows()), columns);
    arrays.position.resize(1);
    for (std::size_t t = 0; t < right.tokens(); ++t) arrays.position[0].push_back(static_cast<std::int32_t>(t) % columns);
    arrays.order.assign(right.order().begin(), right.order().end());
    arrays.segment.assign(right.segment().begin(), right.segment().end());
    arrays.valid.assign(right.valid().begin(), right.valid().end());
    return Positions::from_arrays(std::move(arrays));
  }

  void padded_tokens() {
    const std::int32_t lengths[] = {length() - 5, length() - 2};
    const Positions places = Positions::padded(lengths, length(), PaddingSide::kLeft);
    std::vector<std::size_t> padded;
    for (std::size_t t = 0; t < places.tokens(); ++t) {
      if (places.valid()[t] == 0) padded.push_back(t);
    }
    Logits before(padded.size() * vocabulary_), after(before.size());
    decoder_.forward(tokens(30, 2 * length()), places, padded, before);
    decoder_.forward(tokens(31, 2 * length()), places, padded, after);
    Residual residual;
    compare_tokens(residual, after, before, [&](std::size_t t) { return sentence("padded token ", padded[t]); });
    AuditLine line;
    line.test = "padded-tokens";
    line.claim = sentence("results at ", padded.size(), " padded tokens stay the same while all other content changes");
    finish(std::move(line), residual, 0);
  }

  void packed_documents() {
    const std::int32_t lengths[] = {length() / 2, length() - length() / 2 - 1, 1};
    const Tokens content = tokens(40, length());
    Positions places = Positions::packed(lengths, PackedPositions::kRestart);
    if (options_.fault == PositionFault::kResetWithoutDocumentMask) {
      const auto restarted = places.position();
      places = from(Tokens(restarted.begin(), restarted.end()), counting(0, length()));
    }
    const Logits packed = full(content, places);
    Residual residual;
    std::size_t first = 0;
    for (const std::int32_t count : lengths) {
      const auto size = static_cast<std::size_t>(count);
      const Tokens document(content.begin() + static_cast<std::ptrdiff_t>(first), content.begin() + static_cast<std::ptrdiff_t>(first + size));
      const Logits alone = full(document, Positions::range(count));
      compare_tokens(residual, std::span(packed).subspan(first * vocabulary_, size * vocabulary_), alone,
                     [&](std::size_t t) { return sentence("token ", first + t, " of the row"); });
      first += size;
    }
    AuditLine line;
    line.test = "packed-documents";
    line.claim = sentence("logits of documents of ", lengths[0], ", ", lengths[1], " and 1 tokens packed in one row equal each document's alone");
    finish(std::move(line), residual, options_.tolerance);
  }

  void causal() {
    const Tokens content = tokens(50, length());
    const Positions places = Positions::range(length());
    const Logits before = full(content, places);
    Residual residual;
    for (const std::int32_t changed : {length() - 1, length() / 2, std::int32_t{1}}) {
      Tokens other = content;
      std::int32_t& token = other[static_cast<std::size_t>(changed)];
      token = (token + 1) % decoder_.config().vocabulary;
      const Logits after = full(other, places);
      const std::size_t compared = static_cast<std::size_t>(changed) * vocabulary_;
      compare_tokens(residual, std::span(after).first(compared), std::span(before).first(compared),
                     [&](std::size_t t) { return sentence("token ", t, " when token ", changed, " is changed"); });
    }
    AuditLine line;
    line.test = "causal";
    line.claim = sentence("changing token ", length() - 1, ", ", length() / 2, " or 1 changes no logit before it");
    finish(std::move(line), residual, 0);
  }

  // ---- parts ------------------------------------------------------------------------------------------

  std::int32_t length() const { return options_.length; }

  Tokens tokens(std::uint64_t stream, std::int32_t count) const {
    const CounterRandom random(options_.seed, stream);
    Tokens out;
    for (std::int32_t i = 0; i < count; ++i) {
      out.push_back(static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)) % vocabulary_));
    }
    return out;
  }

  // Any position may follow any other: what a fault places wrongly must not be stopped by the cache.
  Cache faulty_cache(std::int32_t layers, std::int32_t sequences) const {
    CacheConfig config;
    config.shape = decoder_.config().shape();
    config.layers = layers;
    config.sequences = sequences;
    config.backward = BackwardPositions::kAllow;
    return Cache(config);
  }

  // Logits of all valid tokens.
  Logits full(std::span<const std::int32_t> content, const Positions& places) {
    const std::vector<std::size_t> wanted = valid_tokens(places);
    Logits out(wanted.size() * vocabulary_);
    decoder_.forward(content, places, wanted, out);
    return out;
  }
  Logits cached(std::span<const std::int32_t> content, const Positions& places, Cache& cache) {
    const std::vector<std::size_t> wanted = valid_tokens(places);
    Logits out(wanted.size() * vocabulary_);
    decoder_.forward(content, places, cache, wanted, out);
    return out;
  }

  static void append(Logits& to, std::span<const float> more) { to.insert(to.end(), more.begin(), more.end()); }

  // Appends the logits of each row's valid tokens to those of the row.
  void split_rows(std::vector<Logits>& to, std::span<const float> logits, const Positions& places) const {
    std::size_t at = 0;
    for (std::int32_t r = 0; r < places.rows(); ++r) {
      for (std::size_t t = places.row_begin(r); t < places.row_end(r); ++t) {
        if (places.valid()[t] == 0) continue;
        append(to[static_cast<std::size_t>(r)], logits.subspan(at, vocabulary_));
        at += vocabulary_;
      }
    }
  }

  template <class Place>
  void compare_tokens(Residual& residual, std::span<const float> got, std::span<const float> expected, Place&& place) const {
    for (std::size_t t = 0; t * vocabulary_ < expected.size(); ++t) {
      residual.compare(got.subspan(t * vocabulary_, vocabulary_), expected.subspan(t * vocabulary_, vocabulary_),
                       [&] { return place(t); });
    }
  }

  void finish(AuditLine line, const Residual& residual, double tolerance) {
    line.residual = residual.value();
    line.tolerance = tolerance;
    const bool equal = line.residual <= tolerance;  // false for NaN
    line.verdict = equal == (line.expectation == Expectation::kEqual) && !std::isnan(line.residual) ? Verdict::kPass : Verdict::kFail;
    if (!residual.where.empty()) line.note += (line.note.empty() ? "" : "; ") + sentence("largest at ", residual.where);
    report_.lines.push_back(std::move(line));
  }

  void not_applicable(AuditLine line, std::string why) {
    line.verdict = Verdict::kNotApplicable;
    line.tolerance = options_.tolerance;
    line.note = std::move(why);
    report_.lines.push_back(std::move(line));
  }

  Decoder& decoder_;
  const AuditOptions& options_;
  std::size_t vocabulary_;
  AuditReport report_;
};

}  // namespace

const char* to_string(PositionFault fault) noexcept {
  switch (fault) {
    case PositionFault::kNone: return "none";
    case PositionFault::kOffsetRestarted: return "offset-restarted";
    case PositionFault::kOffByOne: return "off-by-one";
    case PositionFault::kUpperLayersAhead: return "upper-layers-ahead";
    case PositionFault::kRowsTakenForPositions: return "rows-taken-for-positions";
    case PositionFault::kPaddingCounted: return "padding-counted";
    case PositionFault::kResetWithoutDocumentMask: return "reset-without-document-mask";
  }
  return "unknown";
}

bool AuditReport::passed() const noexcept {
  return std::none_of(lines.begin(), lines.end(), [](const AuditLine& line) { return line.verdict == Verdict::kFail; });
}

AuditReport run_audit_tests(Decoder& decoder, const AuditOptions& options) {
  require_range(kCall, "length", options.length, 8, 4096);
  require_range(kCall, "move", options.move, 1, kMaxPosition - options.length);
  require_range(kCall, "the vocabulary", decoder.config().vocabulary, 2, kMaxPosition);
  require_positive(kCall, "tolerance", options.tolerance);
  return Audit(decoder, options).run();
}

std::string to_text(const AuditReport& report) {
  std::string out;
  for (const MethodInLayers& entry : report.methods) {
    out += sentence("method  ", entry.method.name, entry.layers.empty() ? ", at the input" : ", layers");
    for (const std::int32_t layer : entry.layers) out += sentence(" ", layer);
    out += "\n";
  }
  if (report.methods.empty()) out += "method  none\n";
  if (report.fault != PositionFault::kNone) out += sentence("fault   ", to_string(report.fault), "\n");
  out += "test              residual   tolerance  verdict\n";
  for (const AuditLine& line : report.lines) {
    const char* verdict = line.verdict == Verdict::kPass ? "pass" : line.verdict == Verdict::kFail ? "FAIL" : "n/a";
    char row[96];
    std::snprintf(row, sizeof row, "%-17s %-10.3g %-10.3g %-7s  ", line.test.c_str(), line.residual, line.tolerance, verdict);
    out += row;
    out += line.claim + (line.note.empty() ? "" : " (" + line.note + ")") + "\n";
  }
  return out;
}

}  // namespace locant
