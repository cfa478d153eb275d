#include "locant/position/interpret.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace locant {
namespace {

constexpr const char* kCall = "interpret";

Grade grade_of(FindingCode code) {
  if (code <= FindingCode::kFallsBack) return Grade::kContradiction;
  return code <= FindingCode::kConstantPositions ? Grade::kAmbiguity : Grade::kNote;
}

// The evidence, its sizes known and checked.
struct Reader {
  const PositionEvidence& evidence;
  Interpretation out;
  std::size_t columns = 0;
  // Columns where documents begin, by row, from cu_seqlens or else segment ids; empty where neither says so.
  std::vector<std::vector<std::int64_t>> told;
  bool documents_told = false;

  std::int32_t position(std::int32_t axis, std::int32_t row, std::size_t column) const {
    const auto tokens = static_cast<std::size_t>(out.rows) * columns;
    return evidence
        .position_ids[static_cast<std::size_t>(axis) * tokens + static_cast<std::size_t>(row) * columns + column];
  }
  bool valid(std::int32_t row, std::size_t column) const {
    return evidence.padding_mask.empty() ||
           evidence.padding_mask[static_cast<std::size_t>(row) * columns + column] != 0;
  }
  bool zero(std::int32_t row, std::size_t column) const {
    for (std::int32_t axis = 0; axis < out.axes; ++axis) {
      if (position(axis, row, column) != 0) return false;
    }
    return true;
  }
  std::vector<std::size_t> valid_columns(std::int32_t row) const {
    std::vector<std::size_t> list;
    for (std::size_t c = 0; c < columns; ++c) {
      if (valid(row, c)) list.push_back(c);
    }
    return list;
  }

  template <class... Parts>
  void report(FindingCode code, std::int32_t row, std::int64_t column, std::int64_t found, std::int64_t expected,
              const Parts&... parts) {
    out.findings.push_back({code, grade_of(code), row, column, 0, found, expected, sentence(parts...)});
  }

  void measure();
  std::optional<std::vector<std::vector<std::int64_t>>> documents_of_cu_seqlens();
  std::optional<std::vector<std::vector<std::int64_t>>> documents_of_segment_ids();
  void read_row(std::int32_t row);
  void read_start(std::int32_t row, const std::vector<std::size_t>& tokens);
  void read_ends(std::int32_t row, const std::vector<std::size_t>& tokens);
  void read_steps(std::int32_t row, const std::vector<std::size_t>& tokens);
  void read_as_others(std::int32_t row, const std::vector<std::size_t>& tokens);
  void build();
};

void Reader::measure() {
  const auto& shape = evidence.shape;
  require_range(kCall, "the number of dimensions of position_ids", static_cast<std::int64_t>(shape.size()), 1, 3);
  out.axes = 1;
  out.rows = 1;
  if (shape.size() == 3) {
    require_range(kCall, "the number of axes", shape[0], 1, 8);
    out.axes = static_cast<std::int32_t>(shape[0]);
  }
  if (shape.size() >= 2) {
    require_range(kCall, "the number of rows", shape[shape.size() - 2], 0, kMaxPosition);
    out.rows = static_cast<std::int32_t>(shape[shape.size() - 2]);
  }
  require_range(kCall, "the number of columns", shape.back(), 0, kMaxPosition);
  out.columns = shape.back();
  columns = static_cast<std::size_t>(out.columns);
  const std::size_t tokens = checked_product(kCall, "position_ids", {out.rows, out.columns});
  const std::string flat = sentence(out.rows, " rows x ", out.columns, " columns");
  require_size(kCall, "position_ids", evidence.position_ids.size(),
               checked_product(kCall, "position_ids", {out.axes, out.rows, out.columns}),
               sentence(out.axes, " axes x ", flat));
  if (!evidence.padding_mask.empty()) require_size(kCall, "padding_mask", evidence.padding_mask.size(), tokens, flat);
  if (!evidence.segment_ids.empty()) require_size(kCall, "segment_ids", evidence.segment_ids.size(), tokens, flat);
  if (!evidence.cached.empty()) {
    require_size(kCall, "cached", evidence.cached.size(), static_cast<std::size_t>(out.rows), "one for each row");
    for (const std::int32_t cached : evidence.cached)
      require_range(kCall, "a number of cached tokens", cached, 0, kMaxPosition - out.columns);
  }
}

std::optional<std::vector<std::vector<std::int64_t>>> Reader::documents_of_cu_seqlens() {
  const auto cu = evidence.cu_seqlens;
  if (cu.empty()) return std::nullopt;
  std::int64_t total = 0;
  for (std::int32_t r = 0; r < out.rows; ++r) total += static_cast<std::int64_t>(valid_columns(r).size());
  if (cu.front() != 0) {
    report(FindingCode::kCuSeqlensMalformed, -1, -1, cu.front(), 0, "cu_seqlens begins with ", cu.front(),
           ", expected 0");
    return std::nullopt;
  }
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] >= cu[i - 1]) continue;
    report(FindingCode::kCuSeqlensMalformed, -1, -1, cu[i], cu[i - 1], "cu_seqlens falls from ", cu[i - 1], " to ",
           cu[i], " at number ", i);
    return std::nullopt;
  }
  if (cu.back() != total) {
    report(FindingCode::kCuSeqlensMalformed, -1, -1, cu.back(), total, "cu_seqlens ends with ", cu.back(),
           ", there are ", total, " valid tokens");
    return std::nullopt;
  }
  std::vector<std::vector<std::int64_t>> documents(static_cast<std::size_t>(out.rows));
  std::int64_t first = 0;  // number of the row's first valid token over all rows
  for (std::int32_t r = 0; r < out.rows; ++r) {
    const auto tokens = valid_columns(r);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (std::binary_search(cu.begin(), cu.end(), static_cast<std::int32_t>(first + static_cast<std::int64_t>(i)))) {
        documents[static_cast<std::size_t>(r)].push_back(static_cast<std::int64_t>(tokens[i]));
      } else if (i == 0) {
        report(FindingCode::kSegmentsDisagree, r, static_cast<std::int64_t>(tokens[0]), first, first,
               "no document of cu_seqlens begins with row ", r, " at token ", first, ", so one would span two rows");
        documents[static_cast<std::size_t>(r)].push_back(static_cast<std::int64_t>(tokens[0]));
      }
    }
    first += static_cast<std::int64_t>(tokens.size());
  }
  return documents;
}

std::optional<std::vector<std::vector<std::int64_t>>> Reader::documents_of_segment_ids() {
  if (evidence.segment_ids.empty()) return std::nullopt;
  std::vector<std::vector<std::int64_t>> documents(static_cast<std::size_t>(out.rows));
  for (std::int32_t r = 0; r < out.rows; ++r) {
    std::unordered_set<std::int32_t> seen;
    std::optional<std::int32_t> current;
    bool returned = false;
    for (const std::size_t c : valid_columns(r)) {
      const std::int32_t id = evidence.segment_ids[static_cast<std::size_t>(r) * columns + c];
      if (current == id) continue;
      documents[static_cast<std::size_t>(r)].push_back(static_cast<std::int64_t>(c));
      if (!seen.insert(id).second && !returned) {
        returned = true;
        report(FindingCode::kSegmentReturns, r, static_cast<std::int64_t>(c), id, *current, "segment ", id, " of row ",
               r, " comes back at column ", c, ", after segment ", *current);
      }
      current = id;
    }
  }
  return documents;
}

void Reader::read_start(std::int32_t row, const std::vector<std::size_t>& tokens) {
  const std::int64_t first = position(0, row, tokens[0]);
  const auto column = static_cast<std::int64_t>(tokens[0]);
  if (!evidence.cached.empty()) {
    const std::int64_t cached = evidence.cached[static_cast<std::size_t>(row)];
    // An image shares numbers, so with several axes a row may well start below the number of tokens.
    if (first < cached && out.axes == 1) {
      report(FindingCode::kBeforeCachedEnd, row, column, first, cached, "row ", row, " starts at position ", first,
             ", its cache holds ", cached, " tokens, so positions would repeat; expected ", cached);
    } else if (first > cached) {
      report(FindingCode::kAfterCachedEnd, row, column, first, cached, "row ", row, " starts at position ", first,
             ", its cache holds ", cached, " tokens: either cached rows were evicted, or padding is counted and ",
             cached, " is meant");
    }
    return;
  }
  if (column > 0 && first == column) {
    report(FindingCode::kPaddingCounted, row, column, first, 0, "the first valid token of row ", row, " stands at ",
           first, " behind ", column, " tokens of padding, which have no position; expected 0");
  } else if (first > 0) {
    report(FindingCode::kStartsLate, row, column, first, 0, "row ", row, " starts at position ", first,
           ", as if it continued ", first, " tokens");
  }
}

void Reader::read_ends(std::int32_t row, const std::vector<std::size_t>& tokens) {
  if (!evidence.padding_mask.empty() || documents_told || tokens.size() < 2 || out.axes > 1) return;
  const auto at = [&](std::size_t i) { return position(0, row, tokens[i]); };
  std::size_t equal = 1;
  while (equal < tokens.size() && at(equal) == at(0)) ++equal;
  // 0 0 0 1 2, or 1 1 0 1 2: the numbers that padding is given, and then a text that counts from 0.
  const bool then_counts = equal < tokens.size() && (at(equal) == 0 || (at(0) == 0 && at(equal) == 1));
  if (equal >= 2 && then_counts) {
    report(FindingCode::kPaddingOrDocuments, row, 0, at(0), at(0), "row ", row, " begins with the number ", at(0), " ",
           equal, " times: left padding, or documents of one token; a mask would say which");
  }
  std::size_t zeros = 0;
  while (zeros < tokens.size() && at(tokens.size() - 1 - zeros) == 0) ++zeros;
  if (zeros >= 2 && zeros < tokens.size()) {
    const std::size_t first = tokens.size() - zeros;
    report(FindingCode::kPaddingOrDocuments, row, static_cast<std::int64_t>(tokens[first]), 0, 0, "row ", row,
           " ends with ", zeros, " zeros: right padding, or documents of one token; a mask would say which");
  }
}

void Reader::read_steps(std::int32_t row, const std::vector<std::size_t>& tokens) {
  const auto& told_here = told[static_cast<std::size_t>(row)];
  std::vector<std::int64_t>& documents = out.row[static_cast<std::size_t>(row)].documents;
  const auto begins = [&](std::size_t column) {
    return std::binary_search(told_here.begin(), told_here.end(), static_cast<std::int64_t>(column));
  };
  if (documents_told) {
    documents = told_here;
  } else {
    documents.push_back(static_cast<std::int64_t>(tokens[0]));
  }
  bool shared = false, gap = false, restarted = false, run_on = false;  // each told once a row
  const std::int64_t start = position(0, row, tokens[0]);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::size_t column = tokens[i], before = tokens[i - 1];
    const std::int64_t now = position(0, row, column), previous = position(0, row, before);
    const auto holes = static_cast<std::int64_t>(column - before) - 1, at = static_cast<std::int64_t>(column);
    const bool boundary = documents_told && begins(column);
    if (zero(row, column)) {
      if (boundary) continue;
      if (documents_told) {
        report(FindingCode::kRestartWithoutBoundary, row, at, 0, previous + 1, "positions of row ", row,
               " start again at column ", at, ", inside one document");
      } else {
        documents.push_back(at);
        if (!restarted) {
          report(FindingCode::kOnlyRestarts, row, at, 0, previous + 1, "positions of row ", row,
                 " start again at column ", at,
                 " and nothing else parts documents there: unless a mask is made of it, later tokens see earlier "
                 "documents");
        }
        restarted = true;
      }
    } else if (boundary) {
      if (!run_on && now != start) {
        report(FindingCode::kBoundaryWithoutRestart, row, at, now, 0, "a document of row ", row, " begins at column ",
               at, " and positions go on at ", now);
      }
      run_on = run_on || now != start;
    } else if (out.axes > 1) {
      continue;  // images share numbers, leave gaps and may fall back
    } else if (now == previous + 1 + holes && holes > 0) {
      report(FindingCode::kPaddingCounted, row, at, now, previous + 1, "the token of row ", row, " at column ", at,
             " stands at ", now, ", counting ", holes, " tokens of padding before it; expected ", previous + 1);
    } else if (now == previous) {
      if (!shared) {
        report(FindingCode::kSharedPositions, row, at, now, previous + 1, "columns ", before, " and ", at, " of row ",
               row, " share position ", now);
      }
      shared = true;
    } else if (now > previous + 1) {
      if (!gap) {
        report(FindingCode::kGap, row, at, now, previous + 1, "positions of row ", row, " jump from ", previous, " to ",
               now, " at column ", at);
      }
      gap = true;
    } else if (now < previous && now >= 0) {
      if (now == start && !documents_told) {
        documents.push_back(at);
        report(FindingCode::kRestartAtOffset, row, at, now, previous + 1, "positions of row ", row,
               " fall back to their first number, ", start, ", at column ", at,
               ": documents that start there (a shared prefix, a table with an offset), or a fault");
      } else {
        report(FindingCode::kFallsBack, row, at, now, previous + 1, "positions of row ", row, " fall from ", previous,
               " to ", now, " at column ", at, ", expected ", previous + 1, " or 0");
      }
    }
  }
}

void Reader::read_as_others(std::int32_t row, const std::vector<std::size_t>& tokens) {
  RowReading& reading = out.row[static_cast<std::size_t>(row)];
  std::int64_t smallest = position(0, row, tokens[0]);
  bool counts = true;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t now = position(0, row, tokens[i]);
    smallest = std::min(smallest, now);
    if (i == 0 || now != std::int64_t{position(0, row, tokens[i - 1])} + 1) {
      reading.by_difference.push_back(static_cast<std::int64_t>(tokens[i]));
      counts = counts && i == 0;
    }
  }
  for (const std::size_t column : tokens) {
    if (position(0, row, column) == smallest) reading.by_minimum.push_back(static_cast<std::int64_t>(column));
  }
  // Both read packing only where nothing better is at hand.
  if (documents_told || !evidence.padding_mask.empty() || out.axes > 1 || counts ||
      reading.by_difference == reading.by_minimum)
    return;
  const auto [a, b] = std::mismatch(reading.by_difference.begin(), reading.by_difference.end(),
                                    reading.by_minimum.begin(), reading.by_minimum.end());
  const std::int64_t column = a == reading.by_difference.end() ? *b
                              : b == reading.by_minimum.end()  ? *a
                                                               : std::min(*a, *b);
  report(FindingCode::kReadersDisagree, row, column, static_cast<std::int64_t>(reading.by_minimum.size()),
         static_cast<std::int64_t>(reading.by_difference.size()), "row ", row, " is ", reading.by_difference.size(),
         " documents to a reader who cuts where positions do not count on, and ", reading.by_minimum.size(),
         " to one who cuts at the smallest; they part at column ", column);
}

void Reader::read_row(std::int32_t row) {
  RowReading& reading = out.row[static_cast<std::size_t>(row)];
  const std::vector<std::size_t> tokens = valid_columns(row);
  reading.valid_tokens = static_cast<std::int64_t>(tokens.size());
  if (tokens.empty()) {
    reading.left_padding = out.columns;
    return;
  }
  reading.left_padding = static_cast<std::int64_t>(tokens.front());
  reading.right_padding = out.columns - 1 - static_cast<std::int64_t>(tokens.back());
  reading.first_position = position(0, row, tokens[0]);
  bool negative = false, constant = tokens.size() > 1, equal_axes = out.axes > 1;
  for (const std::size_t column : tokens) {
    for (std::int32_t axis = 0; axis < out.axes; ++axis) {
      const std::int64_t here = position(axis, row, column);
      reading.next_position = std::max(reading.next_position, here + 1);
      constant = constant && here == position(axis, row, tokens[0]);
      equal_axes = equal_axes && here == position(0, row, column);
      if (here >= 0 || negative) continue;
      negative = true;
      report(FindingCode::kNegativePosition, row, static_cast<std::int64_t>(column), here, 0, "the position of row ",
             row, ", column ", column, " on axis ", axis, " is ", here, ", expected 0 or more");
      out.findings.back().axis = axis;
    }
  }
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i] == tokens[i - 1] + 1) continue;
    report(FindingCode::kHoleInMask, row, static_cast<std::int64_t>(tokens[i - 1]) + 1, 0, 0, "row ", row,
           " has padding between valid tokens, from column ", tokens[i - 1] + 1, " to ", tokens[i] - 1);
    break;
  }
  read_start(row, tokens);
  if (constant) {
    report(FindingCode::kConstantPositions, row, static_cast<std::int64_t>(tokens[0]), *reading.first_position,
           *reading.first_position, "all ", tokens.size(), " tokens of row ", row, " have position ",
           *reading.first_position, ": one document of one token each, or a counter that stands still");
  }
  if (equal_axes && !constant) {
    report(FindingCode::kAxesEqual, row, static_cast<std::int64_t>(tokens[0]), 0, 0, "the ", out.axes, " axes of row ",
           row, " agree everywhere: text, or images laid out flat");
  }
  read_as_others(row, tokens);
  read_ends(row, tokens);
  read_steps(row, tokens);
}

void Reader::build() {
  for (const Finding& finding : out.findings) {
    if (finding.grade == Grade::kContradiction) return;
  }
  PositionArrays arrays = PositionArrays::with_room("interpret", static_cast<std::size_t>(out.rows), out.rows * out.columns, out.axes);
  for (std::int32_t r = 0; r < out.rows; ++r) {
    const auto& documents = out.row[static_cast<std::size_t>(r)].documents;
    // A row that continues a cache continues the order of its tokens as well, in its first document.
    const std::int32_t cached = evidence.cached.empty() ? 0 : evidence.cached[static_cast<std::size_t>(r)];
    std::int32_t segment = -1, order = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const bool is_valid = valid(r, c);
      if (is_valid && std::binary_search(documents.begin(), documents.end(), static_cast<std::int64_t>(c))) {
        ++segment;
        order = segment == 0 ? cached : 0;
      }
      for (std::int32_t axis = 0; axis < out.axes; ++axis) {
        arrays.position[static_cast<std::size_t>(axis)].push_back(is_valid ? position(axis, r, c) : 0);
      }
      arrays.valid.push_back(is_valid ? 1 : 0);
      arrays.segment.push_back(is_valid ? segment : -1);
      arrays.order.push_back(is_valid ? order++ : -1);
    }
    arrays.row_lengths.push_back(static_cast<std::int32_t>(columns));
  }
  out.positions = Positions::from_arrays(std::move(arrays));
}

}  // namespace

const char* to_string(FindingCode code) noexcept {
  static constexpr const char* kNames[] = {"negative-position",
                                           "padding-counted",
                                           "restart-without-boundary",
                                           "segments-disagree",
                                           "segment-returns",
                                           "cu-seqlens-malformed",
                                           "before-cached-end",
                                           "falls-back",
                                           "padding-or-documents",
                                           "only-restarts",
                                           "restart-at-offset",
                                           "after-cached-end",
                                           "readers-disagree",
                                           "constant-positions",
                                           "hole-in-mask",
                                           "shared-positions",
                                           "gap",
                                           "starts-late",
                                           "boundary-without-restart",
                                           "axes-equal"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(FindingCode::kAxesEqual) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

const char* to_string(Grade grade) noexcept {
  switch (grade) {
    case Grade::kNote:
      return "note";
    case Grade::kAmbiguity:
      return "ambiguity";
    case Grade::kContradiction:
      return "contradiction";
  }
  return "unknown";
}

Interpretation interpret(const PositionEvidence& evidence) {
  Reader reader{evidence, {}, 0, {}, false};
  reader.measure();
  const auto rows = static_cast<std::size_t>(reader.out.rows);
  reader.out.row.resize(rows);
  reader.told.resize(rows);
  const auto by_cu = reader.documents_of_cu_seqlens();
  const auto by_ids = reader.documents_of_segment_ids();
  if (by_cu && by_ids) {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto [a, b] =
          std::mismatch((*by_cu)[r].begin(), (*by_cu)[r].end(), (*by_ids)[r].begin(), (*by_ids)[r].end());
      if (a == (*by_cu)[r].end() && b == (*by_ids)[r].end()) continue;
      const bool only_ids = a == (*by_cu)[r].end() || (b != (*by_ids)[r].end() && *b < *a);
      const std::int64_t column = only_ids ? *b : *a;
      reader.report(FindingCode::kSegmentsDisagree, static_cast<std::int32_t>(r), column, column, column,
                    "a document of row ", r, " begins at column ", column, " by ",
                    only_ids ? "segment ids" : "cu_seqlens", " and not by ", only_ids ? "cu_seqlens" : "segment ids");
    }
  }
  if (by_cu || by_ids) {
    reader.told = by_cu ? *by_cu : *by_ids;
    reader.documents_told = true;
  }
  for (std::int32_t r = 0; r < reader.out.rows; ++r) reader.read_row(r);
  std::stable_sort(reader.out.findings.begin(), reader.out.findings.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.row, a.column) < std::pair(b.row, b.column);
  });
  reader.build();
  return std::move(reader.out);
}

}  // namespace locant
