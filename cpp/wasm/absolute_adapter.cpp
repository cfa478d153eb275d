#include "adapters.hpp"

namespace locant::wasm {

SinusoidalConfig read_sinusoidal(const Options& given) {
  SinusoidalConfig config;
  config.width = given.integer("width");
  config.layout = given.choice<SinusoidLayout>("layout");
  config.order = given.choice<SinusoidOrder>("order");
  config.base = given.number("base");
  config.max_frequency = given.number("maxFrequency");
  config.scale = given.maybe_number("scale");
  config.position_offset = given.number("positionOffset");
  return config;
}

TableConfig read_table(const Options& given) {
  TableConfig config;
  config.rows = given.integer("rows");
  config.width = given.integer("width");
  config.indexing.first_row = given.integer("firstRow");
  if (given.has("paddingRow")) config.indexing.padding_row = given.integer("paddingRow");
  config.past_end = given.choice<PastEnd>("pastEnd");
  config.length = given.long_integer("length");
  return config;
}

Sinusoidal* make_sinusoidal(val options) noexcept {
  return guarded([&] { return new Sinusoidal(read_sinusoidal(Options(options))); });
}

val sinusoidal_frequencies(const Sinusoidal& sinusoidal) { return to_array(sinusoidal.frequencies()); }

void sinusoidal_prepare(Sinusoidal& sinusoidal, double count) noexcept {
  guarded([&] { sinusoidal.prepare(static_cast<std::int64_t>(count)); });
}

void sinusoidal_encode(const Sinusoidal& sinusoidal, Address block, Address out, std::size_t count) noexcept {
  guarded([&] { sinusoidal.encode(read_positions(block), floats(out, count)); });
}

void sinusoidal_add(const Sinusoidal& sinusoidal, Address x, Address block, std::size_t count) noexcept {
  guarded([&] { sinusoidal.add(floats(x, count), read_positions(block), floats(x, count)); });
}

val sinusoidal_describe(const Sinusoidal& sinusoidal) { return to_object(sinusoidal.describe()); }

GridSinusoidalConfig read_grid_sinusoidal(const Options& given) {
  return {given.integer("features"), given.choice<GridOrder>("order"), given.choice<GridSteps>("steps"), given.number("base")};
}

GridSinusoidal* make_grid_sinusoidal(val options) noexcept {
  return guarded([&] { return new GridSinusoidal(read_grid_sinusoidal(Options(options))); });
}

val grid_sinusoidal_frequencies(const GridSinusoidal& grid) { return to_array(grid.frequencies()); }

void grid_sinusoidal_encode(const GridSinusoidal& grid, Address block, Address out, std::size_t count) noexcept {
  guarded([&] { grid.encode(read_positions(block), floats(out, count)); });
}

void grid_sinusoidal_add(const GridSinusoidal& grid, Address x, Address block, std::size_t count) noexcept {
  guarded([&] { grid.add(floats(x, count), read_positions(block), floats(x, count)); });
}

val grid_sinusoidal_describe(const GridSinusoidal& grid) { return to_object(grid.describe()); }

LearnedTable* make_learned_table(val options, Address values, std::size_t count) noexcept {
  return guarded([&] { return new LearnedTable(read_table(Options(options)), floats(values, count)); });
}

double learned_table_rows(const LearnedTable& table) noexcept { return static_cast<double>(table.rows()); }

Address learned_table_fit(const LearnedTable& table, Address block) noexcept {
  return guarded([&] { return reply(table.fit(read_positions(block))); });
}

val learned_table_rows_of(const LearnedTable& table, Address block) noexcept {
  return guarded([&] { return to_array(table.rows_of(read_positions(block))); });
}

void learned_table_require_length(const LearnedTable& table, double length) noexcept {
  guarded([&] { table.require_length(static_cast<std::int64_t>(length)); });
}

void learned_table_encode(const LearnedTable& table, Address block, Address out, std::size_t count) noexcept {
  guarded([&] { table.encode(read_positions(block), floats(out, count)); });
}

void learned_table_add(const LearnedTable& table, Address x, std::size_t count, Address block, Address out,
                       std::size_t out_count) noexcept {
  guarded([&] { table.add(floats(x, count), read_positions(block), floats(out, out_count)); });
}

val learned_table_describe(const LearnedTable& table) { return to_object(table.describe()); }

val learned_table_values(const LearnedTable& table) { return to_array(table.values()); }

val learned_table_count(const LearnedTable& table, Address block) noexcept {
  return guarded([&] {
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(table.rows()));
    table.count(read_positions(block), counts);
    const std::vector<double> numbers(counts.begin(), counts.end());
    return to_array(std::span<const double>(numbers));
  });
}

namespace {

DetrConfig read_detr(const Options& given) {
  return {given.integer("featuresPerAxis"), given.number("base"), given.choice<DetrNormalize>("normalize"),
          given.number("scale"), given.number("epsilon")};
}

GridSize read_grid(const Options& given, const char* name) {
  const Options grid(given.member(name));
  return {grid.integer("height"), grid.integer("width")};
}

GridResampling read_resampling(const Options& given) {
  return {given.choice<GridFilter>("filter"), given.choice<GridSmoothing>("smoothing"),
          given.choice<SampleCenters>("centers")};
}

}  // namespace

void detr_sinusoids(val options, Address mask, std::size_t cells, Address out, std::size_t count) noexcept {
  guarded([&] {
    const Options given(options);
    detr_encode(read_detr(given), {given.integer("height"), given.integer("width")}, bytes(mask, cells), floats(out, count));
  });
}

val describe_detr(val options) noexcept {
  return guarded([&] { return to_object(describe(read_detr(Options(options)))); });
}

val interpolated_rows(val options, Address values, std::size_t count) noexcept {
  return guarded([&] {
    const Options given(options);
    const std::vector<float> rows =
        interpolate_rows(floats(values, count), given.long_integer("rows"), given.integer("width"),
                         given.long_integer("newRows"), given.choice<SampleCenters>("centers"));
    return to_array(std::span<const float>(rows));
  });
}

val interpolated_grid(val options, Address values, std::size_t count) noexcept {
  return guarded([&] {
    const Options given(options);
    const std::vector<float> grid =
        interpolate_grid(floats(values, count), read_grid(given, "from"), read_grid(given, "to"), given.integer("channels"),
                         given.integer("prefixRows"), read_resampling(given));
    return to_array(std::span<const float>(grid));
  });
}

val describe_interpolated_grid(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    return to_object(describe(read_grid(given, "from"), read_grid(given, "to"), given.integer("channels"),
                              given.integer("prefixRows"), read_resampling(given)));
  });
}

}  // namespace locant::wasm
