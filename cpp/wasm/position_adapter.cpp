#include "adapters.hpp"
#include "locant/position/grids.hpp"
#include "locant/position/interpret.hpp"
#include "locant/position/packing.hpp"

namespace locant::wasm {

Address positions_range(double count, double offset) noexcept {
  return guarded([&] {
    return reply(Positions::range(static_cast<std::int64_t>(count), static_cast<std::int64_t>(offset)));
  });
}

Address positions_ragged(Address lengths, std::size_t rows, Address offsets, std::size_t offset_count) noexcept {
  return guarded([&] { return reply(Positions::ragged(integers(lengths, rows), integers(offsets, offset_count))); });
}

Address positions_padded(Address lengths, std::size_t rows, double columns, int side, Address offsets,
                         std::size_t offset_count) noexcept {
  return guarded([&] {
    return reply(Positions::padded(integers(lengths, rows), static_cast<std::int64_t>(columns),
                                   static_cast<PaddingSide>(side), integers(offsets, offset_count)));
  });
}

Address positions_from_padding_mask(double rows, double columns, Address mask, std::size_t mask_count, Address offsets,
                                    std::size_t offset_count) noexcept {
  return guarded([&] {
    return reply(Positions::from_padding_mask(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                                              bytes(mask, mask_count), integers(offsets, offset_count)));
  });
}

Address positions_packed(Address lengths, std::size_t segments, int positions) noexcept {
  return guarded([&] {
    return reply(Positions::packed(integers(lengths, segments), static_cast<PackedPositions>(positions)));
  });
}

Address positions_from(Address lengths, std::size_t rows, Address position, std::size_t axes, std::size_t tokens,
                       Address order, std::size_t orders, Address segment, std::size_t segments, Address valid,
                       std::size_t valids) noexcept {
  return guarded([&] {
    const auto copy = [](auto& into, auto span) { into.assign(span.begin(), span.end()); };
    PositionArrays arrays =
        PositionArrays::with_room("positions", rows, static_cast<std::int64_t>(tokens), static_cast<std::int32_t>(axes));
    copy(arrays.row_lengths, integers(lengths, rows));
    for (std::size_t axis = 0; axis < axes; ++axis)
      copy(arrays.position[axis], integers(position + axis * tokens * sizeof(std::int32_t), tokens));
    copy(arrays.order, integers(order, orders));
    copy(arrays.segment, integers(segment, segments));
    copy(arrays.valid, bytes(valid, valids));
    return reply(Positions::from_arrays(std::move(arrays)));
  });
}

Address positions_from_cu_seqlens(Address cu_seqlens, std::size_t count, int positions) noexcept {
  return guarded([&] {
    return reply(locant::positions_from_cu_seqlens(integers(cu_seqlens, count), static_cast<PackedPositions>(positions)));
  });
}

Address positions_from_segment_ids(double rows, double columns, Address ids, std::size_t count, val padding_id,
                                   int positions) noexcept {
  return guarded([&] {
    std::optional<std::int32_t> padding;
    if (!padding_id.isUndefined()) padding = padding_id.as<int>();
    return reply(locant::positions_from_segment_ids(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                                                    integers(ids, count), padding,
                                                    static_cast<PackedPositions>(positions)));
  });
}

Address positions_grid(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    ImageGrid grid;
    grid.frames = given.integer("frames");
    grid.height = given.integer("height");
    grid.width = given.integer("width");
    grid.merge = given.integer("merge");
    grid.first = given.integer("first");
    grid.axes = given.choice<GridAxes>("axes");
    grid.class_token = given.choice<ClassToken>("classToken");
    return reply(grid_positions(grid));
  });
}

Address positions_multimodal(val rows, int after, int side) noexcept {
  return guarded([&] {
    std::vector<std::vector<Run>> batch(rows["length"].as<unsigned>());
    for (unsigned r = 0; r < batch.size(); ++r) {
      const val runs = rows[r];
      const auto count = runs["length"].as<unsigned>();
      for (unsigned i = 0; i < count; ++i) {
        const Options run(runs[i]);
        if (run.has("tokens")) batch[r].push_back(TextRun{run.integer("tokens")});
        else
          batch[r].push_back(GridRun{run.integer("frames"), run.integer("height"), run.integer("width"), run.number("timeStep")});
      }
    }
    return reply(multimodal_positions(batch, static_cast<AfterGrid>(after), static_cast<PaddingSide>(side)));
  });
}

val positions_cu_seqlens(Address block, int row) noexcept {
  return guarded([&] {
    const std::vector<std::int32_t> cu_seqlens = cu_seqlens_of(read_positions(block), row);
    return to_array(std::span<const std::int32_t>(cu_seqlens));
  });
}

Address positions_row(Address block, int row) noexcept {
  return guarded([&] { return reply(read_positions(block).row(row)); });
}

Address positions_slice(Address block, double first, double count) noexcept {
  return guarded([&] {
    return reply(read_positions(block).slice(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)));
  });
}

Address positions_next(Address block, Address counts, std::size_t rows) noexcept {
  return guarded([&] { return reply(read_positions(block).next(integers(counts, rows))); });
}

double positions_delta(Address block, int row) noexcept {
  return guarded([&] { return static_cast<double>(position_delta(read_positions(block), row)); });
}

namespace {

val columns(const std::vector<std::int64_t>& values) {
  std::vector<std::int32_t> out;
  for (const std::int64_t value : values) out.push_back(static_cast<std::int32_t>(value));
  return to_array(std::span<const std::int32_t>(out));
}

val to_object(const RowReading& row) {
  Object object;
  object.set("validTokens", row.valid_tokens);
  object.set("leftPadding", row.left_padding);
  object.set("rightPadding", row.right_padding);
  if (row.first_position) object.set("firstPosition", *row.first_position);
  else object.set("firstPosition", val::null());
  object.set("nextPosition", row.next_position);
  object.set("documents", columns(row.documents));
  object.set("byDifference", columns(row.by_difference));
  object.set("byMinimum", columns(row.by_minimum));
  return object;
}

val to_object(const Finding& finding) {
  Object object;
  object.set("code", std::string(to_string(finding.code)));
  object.set("grade", std::string(to_string(finding.grade)));
  object.set("row", finding.row);
  object.set("column", finding.column);
  object.set("axis", finding.axis);
  object.set("found", finding.found);
  object.set("expected", finding.expected);
  object.set("sentence", finding.sentence);
  return object;
}

std::vector<PatchGrid> patch_grids(const val& list) {
  std::vector<PatchGrid> grids(list["length"].as<unsigned>());
  for (unsigned i = 0; i < grids.size(); ++i) {
    const Options grid(list[i]);
    grids[i] = {grid.integer("frames"), grid.integer("height"), grid.integer("width"), grid.number("timeStep")};
  }
  return grids;
}

}  // namespace

val interpret_positions(val given) noexcept {
  return guarded([&] {
    const Options options(given);
    const std::vector<std::int32_t> shape = options.integers("shape"), ids = options.integers("positionIds"),
                                    cu_seqlens = options.integers("cuSeqlens"), segments = options.integers("segmentIds"),
                                    cached = options.integers("cached");
    const std::vector<std::uint8_t> mask = options.bytes("paddingMask");
    PositionEvidence evidence;
    evidence.shape.assign(shape.begin(), shape.end());
    evidence.position_ids = ids;
    evidence.padding_mask = mask;
    evidence.cu_seqlens = cu_seqlens;
    evidence.segment_ids = segments;
    evidence.cached = cached;
    const Interpretation meaning = interpret(evidence);
    List rows, findings;
    for (const RowReading& row : meaning.row) rows.add(to_object(row));
    for (const Finding& finding : meaning.findings) findings.add(to_object(finding));
    Object object;
    object.set("axes", meaning.axes);
    object.set("rows", meaning.rows);
    object.set("columns", meaning.columns);
    object.set("row", rows);
    object.set("findings", findings);
    object.set("positions", static_cast<double>(meaning.positions ? reply(*meaning.positions) : 0));
    return object;
  });
}

val runs_of_token_kinds(val given) noexcept {
  return guarded([&] {
    const Options options(given);
    std::vector<TokenKind> tokens;
    for (const std::uint8_t kind : options.bytes("tokens")) tokens.push_back(static_cast<TokenKind>(kind));
    const std::vector<Run> runs =
        runs_of_tokens(tokens, patch_grids(options.member("images")), patch_grids(options.member("videos")),
                       options.integer("merge"), options.choice<VideoFrames>("videoFrames"));
    List list;
    for (const Run& run : runs) {
      Object object;
      if (const auto* text = std::get_if<TextRun>(&run)) {
        object.set("tokens", text->tokens);
      } else {
        const auto& grid = std::get<GridRun>(run);
        object.set("frames", grid.frames);
        object.set("height", grid.height);
        object.set("width", grid.width);
        object.set("timeStep", grid.time_step);
      }
      list.add(object);
    }
    return list;
  });
}

}  // namespace locant::wasm
