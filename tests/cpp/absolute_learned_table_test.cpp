#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "locant/absolute/learned_table.hpp"

using namespace locant;

namespace {

// Row r holds r, r + 0.25, ...: every value tells its row and column.
std::vector<float> telling(std::int32_t rows, std::int32_t width) {
  std::vector<float> values;
  for (std::int32_t r = 0; r < rows; ++r) {
    for (std::int32_t c = 0; c < width; ++c) values.push_back(static_cast<float>(r) + 0.25f * static_cast<float>(c));
  }
  return values;
}

LearnedTable table(std::int32_t rows, std::int32_t width, TableIndexing indexing = {}, PastEnd past = PastEnd::kError,
                   std::int64_t length = 0) {
  return LearnedTable({rows, width, indexing, past, length}, telling(rows, width));
}

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error was thrown");
  return Error(ErrorCode::kFormat, "");
}

}  // namespace

TEST_CASE("learned table: length 2048 and width 768 make 1572864 parameters") {
  const std::vector<float> zeros(2048 * 768);
  CHECK(LearnedTable({2048, 768, {}, PastEnd::kError, 0}, zeros).parameter_count() == 1572864);
}

TEST_CASE("learned table: the last row is read at L-1 and the error comes at L, not at L+1") {
  const LearnedTable t = table(8, 2);
  std::vector<float> out(16);
  t.encode(Positions::range(8), out);
  CHECK(out[14] == 7.0f);
  CHECK(out[15] == 7.25f);
  std::vector<float> longer(18, -1.0f);
  const Error error = error_of([&] { t.encode(Positions::range(9), longer); });
  CHECK(error.code() == ErrorCode::kTableEnd);
  CHECK(error.value() == 8);
  CHECK(error.limit() == 7);
  CHECK(error.message() == "LearnedTable::encode: token 8 stands at position 8, the table ends at position 7");
  CHECK(longer == std::vector<float>(18, -1.0f));  // nothing was written
  // A continuation is judged by its position, not by its length.
  CHECK(error_of([&] { t.encode(Positions::range(1, 8), std::span(out).first(2)); }).code() == ErrorCode::kTableEnd);
  t.encode(Positions::range(1, 7), std::span(out).first(2));
  CHECK(out[0] == 7.0f);
}

TEST_CASE("F01, F02, F03: a table of 4096 rows refuses 40960 and 262144 positions when asked, and F04: accepts fewer") {
  const LearnedTable t = table(4096, 1);
  CHECK(error_of([&] { t.require_length(40960); }).code() == ErrorCode::kTableEnd);
  CHECK(error_of([&] { t.require_length(262144); }).limit() == 4096);
  CHECK(error_of([&] { t.require_length(4097); }).code() == ErrorCode::kTableEnd);
  t.require_length(4096);
  t.require_length(17);
  std::vector<float> out(17);
  t.encode(Positions::range(17), out);
  CHECK(out[16] == 16.0f);
}

TEST_CASE("F08: fewer positions than columns keep all their columns") {
  const LearnedTable t = table(512, 128);
  std::vector<float> out(64 * 128);
  t.encode(Positions::range(64), out);
  CHECK(out[63 * 128 + 127] == 63 + 0.25f * 127);
}

TEST_CASE("learned table: past the end, truncation drops exactly the tokens without a row") {
  const LearnedTable t = table(4, 2, {}, PastEnd::kTruncate);
  const std::int32_t lengths[] = {6, 3};
  const Positions positions = Positions::ragged(lengths);
  const Positions kept = t.fit(positions);
  CHECK(kept.rows() == 2);
  CHECK(kept.row_length(0) == 4);
  CHECK(kept.row_length(1) == 3);
  CHECK(kept.position()[3] == 3);
  CHECK(kept.position()[4] == 0);
  std::vector<float> x(18);
  std::iota(x.begin(), x.end(), 100.0f);
  std::vector<float> out(14);
  t.add(x, positions, out);
  CHECK(out[6] == 106.0f + 3.0f);   // last kept token of row 0
  CHECK(out[8] == 112.0f + 0.0f);   // first token of row 1: its content came along
  CHECK(error_of([&] { t.add(x, positions, x); }).code() == ErrorCode::kShape);
  t.add(x, positions, std::span(x).first(14));
  CHECK(std::vector<float>(x.begin(), x.begin() + 14) == out);
  CHECK(t.fit(Positions::range(4)) == Positions::range(4));
  CHECK(t.fit(Positions::range(2, 4)).tokens() == 0);
}

TEST_CASE("learned table: past the end, clamping reads the last row") {
  const LearnedTable t = table(4, 1, {}, PastEnd::kClamp);
  CHECK(t.rows_of(Positions::range(6)) == std::vector<std::int32_t>{0, 1, 2, 3, 3, 3});
  CHECK(t.rows_of(Positions::range(1, kMaxPosition)) == std::vector<std::int32_t>{3});
}

TEST_CASE("learned table: past the end, interpolation stretches once to the stated length and ends there") {
  const LearnedTable t = table(4, 1, {}, PastEnd::kInterpolate, 8);
  CHECK(t.length() == 8);
  CHECK(t.parameter_count() == 4);
  std::vector<float> out(8);
  t.encode(Positions::range(8), out);
  // source(i) = (i + 0.5) / 2 - 0.5, held at the edges.
  CHECK(out == std::vector<float>{0.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.25f, 2.75f, 3.0f});
  std::vector<float> longer(9);
  CHECK(error_of([&] { t.encode(Positions::range(9), longer); }).code() == ErrorCode::kTableEnd);
  // Rows before position 0 belong to the convention and are not stretched.
  const LearnedTable opt = table(6, 1, TableIndexing::opt(), PastEnd::kInterpolate, 8);
  CHECK(opt.rows() == 10);
  CHECK(opt.values()[0] == 0.0f);
  CHECK(opt.values()[1] == 1.0f);
  CHECK(opt.values()[2] == 2.0f);
  CHECK(opt.values()[9] == 5.0f);
}

TEST_CASE("learned table: RoBERTa's rows start at padding_idx + 1 and padding reads padding_idx") {
  const LearnedTable t = table(514, 1, TableIndexing::roberta());
  CHECK(t.length() == 512);
  t.require_length(512);
  const std::int32_t lengths[] = {3};
  CHECK(t.rows_of(Positions::padded(lengths, 5, PaddingSide::kRight)) == std::vector<std::int32_t>{2, 3, 4, 1, 1});
  CHECK(t.rows_of(Positions::padded(lengths, 5, PaddingSide::kLeft)) == std::vector<std::int32_t>{1, 1, 2, 3, 4});
  CHECK(t.rows_of(Positions::range(1, 511)) == std::vector<std::int32_t>{513});
  CHECK(error_of([&] { t.rows_of(Positions::range(1, 512)); }).code() == ErrorCode::kTableEnd);
  // A table of 512 rows serves 510 positions: the fault of sizing it by the sequence length.
  CHECK(error_of([] { table(512, 1, TableIndexing::roberta()).require_length(512); }).limit() == 510);
}

TEST_CASE("learned table: OPT adds 2 and its padding reads row 1; BART adds 2 to every slot") {
  const std::int32_t lengths[] = {2};
  const Positions padded = Positions::padded(lengths, 3, PaddingSide::kLeft);
  CHECK(table(10, 1, TableIndexing::opt()).rows_of(padded) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(table(10, 1, TableIndexing::bart()).rows_of(Positions::range(3)) == std::vector<std::int32_t>{2, 3, 4});
  CHECK(table(10, 1, TableIndexing::bart()).rows_of(padded) == std::vector<std::int32_t>{-1, 2, 3});
}

TEST_CASE("learned table: padded tokens without a row get nothing added") {
  const LearnedTable t = table(4, 2);
  const std::uint8_t mask[] = {0, 1, 0, 1};
  const Positions positions = Positions::from_padding_mask(1, 4, mask);
  std::vector<float> x(8, 10.0f), encoded(8, -1.0f);
  t.encode(positions, encoded);
  CHECK(encoded == std::vector<float>{0, 0, 0, 0.25f, 0, 0, 1, 1.25f});
  t.add(x, positions, x);
  CHECK(x == std::vector<float>{10, 10, 10, 10.25f, 10, 10, 11, 11.25f});
}

TEST_CASE("learned table: counting tells which rows a corpus used, padding not among them") {
  const LearnedTable t = table(514, 1, TableIndexing::roberta());
  std::vector<std::uint64_t> counts(514);
  const std::int32_t lengths[] = {3, 1};
  t.count(Positions::padded(lengths, 4, PaddingSide::kRight), counts);
  t.count(Positions::range(2), counts);
  CHECK(counts[1] == 0);
  CHECK(counts[2] == 3);
  CHECK(counts[3] == 2);
  CHECK(counts[4] == 1);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == 6);
  CHECK(error_of([&] { t.count(Positions::range(600), counts); }).code() == ErrorCode::kTableEnd);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == 6);
  // Under clamping the last row is used by all that lies past it.
  const LearnedTable clamped = table(4, 1, {}, PastEnd::kClamp);
  std::vector<std::uint64_t> four(4);
  clamped.count(Positions::range(10), four);
  CHECK(four == std::vector<std::uint64_t>{1, 1, 1, 7});
}

TEST_CASE("learned table: bad configurations are answered by their codes") {
  const std::vector<float> values(12);
  const auto code = [&](TableConfig c) { return error_of([&] { LearnedTable(c, values); }).code(); };
  CHECK(code({0, 3, {}, PastEnd::kError, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 0, {}, PastEnd::kError, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 4, {}, PastEnd::kError, 0}) == ErrorCode::kShape);
  CHECK(code({4, 3, {4, std::nullopt}, PastEnd::kError, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 3, {-1, std::nullopt}, PastEnd::kError, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 3, {0, 4}, PastEnd::kError, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 3, {}, PastEnd::kError, 8}) == ErrorCode::kArgument);
  CHECK(code({4, 3, {}, PastEnd::kInterpolate, 0}) == ErrorCode::kArgument);
  CHECK(code({4, 3, {}, PastEnd::kInterpolate, std::int64_t{1} << 40}) == ErrorCode::kArgument);
}

TEST_CASE("learned table: describes its size, its origin and its end") {
  const MethodDescription d = table(514, 1, TableIndexing::roberta()).describe();
  CHECK(d.formula == "table [514, 1]");
  CHECK(d.origin == "row = position + 2");
  CHECK(d.past_end == "an error past position 511");
}
