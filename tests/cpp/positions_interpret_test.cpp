// What given positions mean and where they contradict each other: the records of reported faults, and running code.
#include "locant/position/interpret.hpp"

#include "locant/position/grids.hpp"
#include "locant/position/packing.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

struct Given {
  std::vector<std::int64_t> shape;
  std::vector<std::int32_t> positions;
  std::vector<std::uint8_t> mask = {};
  std::vector<std::int32_t> cu = {}, ids = {}, cached = {};

  Interpretation read() const { return interpret({shape, positions, mask, cu, ids, cached}); }
};

std::vector<std::string> codes_of(const Interpretation& read) {
  std::vector<std::string> codes;
  for (const Finding& finding : read.findings) codes.push_back(to_string(finding.code));
  return codes;
}

bool has(const Interpretation& read, FindingCode code) {
  return std::any_of(read.findings.begin(), read.findings.end(), [&](const Finding& f) { return f.code == code; });
}

const Finding& first_of(const Interpretation& read, FindingCode code) {
  for (const Finding& finding : read.findings) {
    if (finding.code == code) return finding;
  }
  FAIL("no finding ", to_string(code));
  return read.findings.front();
}

using Codes = std::vector<std::string>;
using Columns = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("interpret: what the builders make is read back without a finding, and as the same positions") {
  const std::int32_t lengths[] = {3, 5}, cu[] = {0, 3, 4, 7};
  const Positions padded = Positions::padded(lengths, 5, PaddingSide::kLeft);
  const std::vector<std::uint8_t> mask(padded.valid().begin(), padded.valid().end());
  Given given{{2, 5}, {padded.position(0).begin(), padded.position(0).end()}, mask};
  CHECK(codes_of(given.read()) == Codes{});
  CHECK(given.read().positions == padded);
  const Positions packed = positions_from_cu_seqlens(cu, PackedPositions::kRestart);
  given = {{7}, {packed.position(0).begin(), packed.position(0).end()}, {}, {0, 3, 4, 7}};
  CHECK(codes_of(given.read()) == Codes{});
  CHECK(given.read().positions == packed);
}

TEST_CASE("C01: a document begins at every 0, one-token documents included, and cu_seqlens can be checked against it") {
  Given given{{7}, {0, 1, 2, 0, 0, 1, 2}};
  const Interpretation alone = given.read();
  CHECK(alone.row[0].documents == Columns{0, 3, 4});
  CHECK(codes_of(alone) == Codes{"only-restarts"});  // and nothing else keeps them apart
  given.cu = {0, 3, 4, 7};
  CHECK(codes_of(given.read()) == Codes{});
  given.cu = {0, 3, 7};  // what a strict fall makes of it
  const Interpretation merged = given.read();
  CHECK(merged.contradicts());
  const Finding& finding = first_of(merged, FindingCode::kRestartWithoutBoundary);
  CHECK(finding.column == 4);
  CHECK(finding.sentence == "positions of row 0 start again at column 4, inside one document");
}

TEST_CASE("C03: one, two and three dimensions of the same positions read alike") {
  const std::vector<std::int32_t> row = {0, 1, 2, 0, 1};
  std::vector<std::int32_t> axes;
  for (int axis = 0; axis < 3; ++axis) axes.insert(axes.end(), row.begin(), row.end());
  const Interpretation one = Given{{5}, row}.read(), two = Given{{1, 5}, row}.read(),
                       three = Given{{3, 1, 5}, axes}.read();
  for (const Interpretation* read : {&one, &two, &three}) {
    CHECK(read->rows == 1);
    CHECK(read->columns == 5);
    CHECK(read->row[0].documents == Columns{0, 3});
    CHECK(has(*read, FindingCode::kOnlyRestarts));
  }
  CHECK(one.axes == 1);
  CHECK(three.axes == 3);
  // An image of three axes is not taken for documents.
  const std::vector<Run> runs = {TextRun{2}, GridRun{1, 2, 2}, TextRun{2}};
  const Positions image = multimodal_positions(std::span(&runs, 1), AfterGrid::kLargestPlusOne, PaddingSide::kRight);
  std::vector<std::int32_t> flat;
  for (int axis = 0; axis < 3; ++axis)
    flat.insert(flat.end(), image.position(axis).begin(), image.position(axis).end());
  const Interpretation read = Given{{3, 1, 8}, flat}.read();
  CHECK(codes_of(read) == Codes{});
  CHECK(read.positions == image);
  for (const auto& shape : {std::vector<std::int64_t>{}, {1, 1, 1, 5}}) {
    check_error(ErrorCode::kArgument, "the number of dimensions of position_ids", [&] { Given{shape, row}.read(); });
  }
  check_error(ErrorCode::kShape, "position_ids hold 5 values, expected 1 axes x 2 rows x 3 columns = 6",
              [&] { Given{{2, 3}, row}.read(); });
  check_error(ErrorCode::kArgument, "the number of axes is 9", [&] { Given{{9, 1, 5}, row}.read(); });
}

TEST_CASE(
    "C04, C07, C08: a restart without a document mask, a document mask, and documents that run on are three things") {
  Given given{{6}, {0, 1, 2, 0, 1, 2}};
  CHECK(first_of(given.read(), FindingCode::kOnlyRestarts).grade == Grade::kAmbiguity);
  given.ids = {0, 0, 0, 1, 1, 1};
  CHECK(codes_of(given.read()) == Codes{});
  given.positions = {0, 1, 2, 3, 4, 5};
  const Interpretation running = given.read();
  CHECK(codes_of(running) == Codes{"boundary-without-restart"});
  CHECK(running.findings[0].grade == Grade::kNote);
  REQUIRE(running.positions.has_value());
  CHECK(running.positions->segment()[3] == 1);
  CHECK(running.positions->order()[3] == 0);
  given.positions = {0, 1, 2, 0, 1, 2};
  given.ids = {0, 0, 0, 0, 0, 0};
  CHECK(codes_of(given.read()) == Codes{"restart-without-boundary"});
}

TEST_CASE("B01, A21, A26: each row counts its own valid tokens, from its own cache") {
  // The positions of the longest row given to all rows of a left-padded batch.
  const Given given{{2, 4}, {0, 1, 2, 3, 0, 1, 2, 3}, {1, 1, 1, 1, 0, 0, 1, 1}};
  const Interpretation read = given.read();
  CHECK(codes_of(read) == Codes{"padding-counted"});
  CHECK(read.findings[0].row == 1);
  CHECK(read.findings[0].column == 2);
  CHECK(read.findings[0].found == 2);
  CHECK(read.findings[0].expected == 0);
  CHECK(read.contradicts());
  // A decode step at the padded width, rows of 7 and 10 tokens.
  const Interpretation step = Given{{2, 1}, {10, 10}, {}, {}, {}, {7, 10}}.read();
  CHECK(codes_of(step) == Codes{"after-cached-end"});
  CHECK(step.findings[0].row == 0);
  CHECK(step.findings[0].expected == 7);
  CHECK(step.findings[0].grade == Grade::kAmbiguity);  // rows that were evicted would look the same
  CHECK(codes_of(Given{{2, 1}, {7, 10}, {}, {}, {}, {7, 10}}.read()) == Codes{});
  CHECK(Given{{2, 1}, {7, 10}, {}, {}, {}, {7, 10}}.read().positions->order()[1] == 10);
}

TEST_CASE("A01, A13, A24: a step that starts before the end of its cache contradicts it") {
  const Interpretation zero = Given{{1, 1}, {0}, {}, {}, {}, {12}}.read();
  CHECK(codes_of(zero) == Codes{"before-cached-end"});
  CHECK(zero.contradicts());
  const Interpretation chunk = Given{{1, 4}, {8, 9, 10, 11}, {}, {}, {}, {4}}.read();
  CHECK(codes_of(chunk) == Codes{"after-cached-end"});
  CHECK(codes_of(Given{{1, 3}, {5, 5, 5}}.read()) == Codes{"starts-late", "constant-positions", "shared-positions"});
}

TEST_CASE("B05: negative positions are contradictions with their place") {
  const Interpretation read = Given{{2, 3}, {0, 1, 2, -4, -3, -2}}.read();
  CHECK(read.contradicts());
  const Finding& finding = first_of(read, FindingCode::kNegativePosition);
  CHECK(finding.row == 1);
  CHECK(finding.found == -4);
  CHECK(finding.sentence == "the position of row 1, column 0 on axis 0 is -4, expected 0 or more");
}

TEST_CASE("B14: padding on either side is read per row, holes are noted, counted holes contradict") {
  Given given{{2, 6}, {0, 0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 0}, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}};
  const Interpretation read = given.read();
  CHECK(codes_of(read) == Codes{});
  CHECK(read.row[0].left_padding == 2);
  CHECK(read.row[1].right_padding == 2);
  CHECK(read.row[0].next_position == 4);
  CHECK(read.row[1].next_position == 4);
  CHECK(codes_of(Given{{4}, {0, 0, 1, 2}, {1, 0, 1, 1}}.read()) == Codes{"hole-in-mask"});
  CHECK(codes_of(Given{{4}, {0, 1, 2, 3}, {1, 0, 1, 1}}.read()) == Codes{"hole-in-mask", "padding-counted"});
}

TEST_CASE("J09: flat positions on several axes are told from a grid") {
  const Interpretation read = Given{{3, 1, 4}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}}.read();
  CHECK(codes_of(read) == Codes{"axes-equal"});
  CHECK(read.findings[0].grade == Grade::kNote);
}

TEST_CASE("interpret: cu_seqlens and segment ids that do not hold, or not with each other") {
  const std::vector<std::int32_t> row = {0, 1, 2, 0, 1};
  const auto codes = [&](std::vector<std::int32_t> cu, std::vector<std::int32_t> ids) {
    return codes_of(Given{{5}, row, {}, std::move(cu), std::move(ids)}.read());
  };
  CHECK(codes({1, 3, 5}, {}) == Codes{"cu-seqlens-malformed", "only-restarts"});
  CHECK(codes({0, 4, 3, 5}, {}) == Codes{"cu-seqlens-malformed", "only-restarts"});
  CHECK(codes({0, 3, 6}, {}) == Codes{"cu-seqlens-malformed", "only-restarts"});
  CHECK(codes({0, 3, 3, 5}, {}) == Codes{});  // an empty document is none
  CHECK(codes({0, 3, 5}, {4, 4, 4, 9, 9}) == Codes{});
  CHECK(codes({0, 3, 5}, {0, 0, 1, 1, 1}) == Codes{"segments-disagree"});
  CHECK(codes({}, {0, 0, 0, 1, 0}) == Codes{"segment-returns", "boundary-without-restart"});
  const Interpretation spans = Given{{2, 2}, {0, 1, 2, 3}, {}, {0, 4}}.read();
  CHECK(has(spans, FindingCode::kSegmentsDisagree));
  // cu_seqlens counts valid tokens only.
  CHECK(codes_of(Given{{2, 3}, {0, 0, 1, 0, 1, 2}, {0, 1, 1, 1, 1, 1}, {0, 2, 5}}.read()) == Codes{});
}

TEST_CASE("interpret: packing is read as the two published readers read it, and where they part it says so") {
  const Json vectors = load_vectors("positions_detect");
  REQUIRE(vectors.at("cases").size() > 10);
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const auto positions = ints_of(c.at("inputs").at("positions"));
    const auto count = static_cast<std::int64_t>(positions.size());
    const Interpretation read = Given{{1, count}, positions}.read();
    const Json& expected = c.at("expected");
    const auto starts = [&](const char* key) {  // their boundaries end with the row's length
      auto columns = expected.at(key).get<Columns>();
      columns.pop_back();
      return columns;
    };
    CHECK(read.row[0].by_difference == starts("mask_boundaries"));
    // Where the row merely counts, the second reader makes no cut, whatever the smallest number.
    if (expected.at("varlen_packed").get<bool>()) {
      CHECK(read.row[0].by_minimum == starts("varlen_boundaries"));
    }
    CHECK(has(read, FindingCode::kReadersDisagree) == !expected.at("agree").get<bool>());
  }
  const auto codes = [](std::vector<std::int32_t> positions) {
    return codes_of(Given{{static_cast<std::int64_t>(positions.size())}, positions}.read());
  };
  CHECK(codes({0, 0, 0, 1, 2}) == Codes{"padding-or-documents", "only-restarts"});
  CHECK(codes({1, 1, 0, 1, 2}) ==
        Codes{"starts-late", "readers-disagree", "padding-or-documents", "shared-positions", "only-restarts"});
  CHECK(codes({0, 1, 2, 0, 0}) == Codes{"padding-or-documents", "only-restarts"});
  CHECK(codes({2, 3, 4, 2, 3}) == Codes{"starts-late", "restart-at-offset"});
  CHECK(codes({0, 1, 2, 1, 2}) == Codes{"readers-disagree", "falls-back"});
  CHECK(codes({0, 1, 2, 10, 11}) == Codes{"readers-disagree", "gap"});
  CHECK(codes({7, 8, 9}) == Codes{"starts-late"});
}

TEST_CASE("interpret: packed rows of running code are read as its documents, wherever they start counting") {
  const Json vectors = load_vectors("positions_packed");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& e = c.at("expected");
    Given given{{static_cast<std::int64_t>(ints_of(e.at("positions")).size())}, ints_of(e.at("positions"))};
    const auto cu = ints_of(e.at("cu_seqlens"));
    const Columns expected(cu.begin(), cu.end() - 1);
    CHECK(given.read().row[0].documents == expected);
    given.ids = ints_of(e.at("segments"));
    given.cu = cu;
    const Interpretation read = given.read();
    REQUIRE(!read.contradicts());
    CHECK(cu_seqlens_of(*read.positions, 0) == cu);
    // And from cu_seqlens and segment ids the builders make the same positions.
    if (c.at("parameters").at("start") == 0) {
      CHECK(positions_from_cu_seqlens(cu, PackedPositions::kRestart) == *read.positions);
      CHECK(positions_from_segment_ids(1, given.shape[0], given.ids, std::nullopt, PackedPositions::kRestart) ==
            *read.positions);
    }
  }
}

TEST_CASE("interpret: padded rows of running code are consistent, and decoding goes on where the valid tokens end") {
  const Json vectors = load_vectors("positions_padded");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    if (!c.at("inputs").contains("attention_mask")) continue;
    const auto shape = shape_of(c.at("inputs").at("attention_mask"));
    const auto mask = values_of<std::uint8_t>(c.at("inputs").at("attention_mask"));
    const auto positions = ints_of(c.at("expected").at("positions"));
    const Interpretation read = Given{shape, positions, mask}.read();
    CHECK(!read.contradicts());
    CHECK(read.positions == Positions::from_padding_mask(shape[0], shape[1], mask));
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      const auto row = mask.begin() + r * shape[1];
      CHECK(read.row[static_cast<std::size_t>(r)].next_position == std::count(row, row + shape[1], 1));
    }
  }
}

TEST_CASE("interpret: random evidence is answered with findings, never with anything worse") {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    Given given;
    const int axes = pick(1, 3), rows = pick(0, 3), columns = pick(0, 7);
    given.shape = {axes, rows, columns};
    for (int i = 0; i < axes * rows * columns; ++i)
      given.positions.push_back(pick(0, 5) == 0 ? pick(-3, kMaxPosition) : i % 4);
    if (pick(0, 1) != 0) {
      for (int i = 0; i < rows * columns; ++i) given.mask.push_back(static_cast<std::uint8_t>(pick(0, 1)));
    }
    if (pick(0, 1) != 0) {
      for (int i = 0; i < pick(1, 5); ++i) given.cu.push_back(pick(0, rows * columns));
      if (pick(0, 1) != 0) std::sort(given.cu.begin(), given.cu.end());
    }
    if (pick(0, 2) == 0) {
      for (int i = 0; i < rows * columns; ++i) given.ids.push_back(pick(0, 2));
    }
    if (pick(0, 2) == 0) {
      for (int r = 0; r < rows; ++r) given.cached.push_back(pick(0, 9));
    }
    const Interpretation read = given.read();
    const bool proven = std::any_of(read.findings.begin(), read.findings.end(),
                                    [](const Finding& f) { return f.grade == Grade::kContradiction; });
    CHECK(read.contradicts() == proven);
    CHECK(read.row.size() == static_cast<std::size_t>(rows));
    for (const Finding& f : read.findings) CHECK(!f.sentence.empty());
  }
}
