#include "adapters.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/cope.hpp"
#include "locant/bias/custom.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/bias/t5.hpp"
#include "locant/bias/transformer_xl.hpp"

namespace locant::wasm {
namespace {

ShawTable shaw_table(const Options& given, std::span<const float> table) {
  return ShawTable({given.integer("maxDistance"), given.integer("heads"), given.integer("width"),
                    given.choice<ShawSides>("sides")},
                   table);
}

Terms read_terms(const Options& given, std::span<const float> table) {
  const std::string kind = given.text("kind");
  if (kind == "alibi") {
    std::vector<double> slopes = given.doubles("slopes");
    if (slopes.empty()) slopes = alibi_slopes(given.integer("heads"), given.number("biasMax"));
    return {std::make_shared<Alibi>(std::move(slopes), given.choice<AlibiForm>("form"), given.long_integer("origin")),
            nullptr,
            {}};
  }
  if (kind == "t5Bias") {
    const T5Buckets buckets(given.choice<T5Direction>("direction"), given.integer("buckets"), given.integer("maxDistance"));
    return {std::make_shared<T5Bias>(buckets, given.integer("heads"), table), nullptr, buckets.runs()};
  }
  if (kind == "displacementBias") {
    auto term = std::make_shared<DisplacementTable>(given.integer("heads"), given.long_integer("first"),
                                                    given.long_integer("last"), table, given.choice<BeyondTable>("beyond"));
    auto runs = term->runs();
    return {std::move(term), nullptr, std::move(runs)};
  }
  if (kind == "matrixBias") {
    return {std::make_shared<MatrixBias>(given.integer("heads"), given.long_integer("queries"), given.long_integer("keys"),
                                         table, given.integer("firstQuery"), given.integer("firstKey")),
            nullptr,
            {}};
  }
  if (kind == "transformerXl") {
    TransformerXlConfig config{given.integer("heads"), given.integer("headDim"), given.integer("modelWidth"),
                               given.number("base")};
    if (given.has("clamp")) config.clamp = given.integer("clamp");
    config.kept_before = given.integer("keptBefore");
    config.kept_after = given.integer("keptAfter");
    auto term = std::make_shared<TransformerXl>(config, table, given.floats("contentBias"), given.floats("positionBias"));
    auto runs = term->merged_runs();
    return {std::move(term), nullptr, std::move(runs)};
  }
  if (kind == "deberta") {
    const DebertaBuckets buckets({given.integer("buckets"), given.integer("maxPosition"), given.choice<DebertaFar>("far")});
    return {std::make_shared<Deberta>(buckets, given.integer("heads"), given.integer("headDim"),
                                      given.floats("contentToPosition"), given.floats("positionToContent"),
                                      given.choice<DebertaPositionToContent>("convention")),
            nullptr, buckets.runs()};
  }
  if (kind == "kerple") {
    return {std::make_shared<Kerple>(given.choice<KerpleKernel>("kernel"), given.doubles("r1"), given.doubles("r2")), nullptr, {}};
  }
  if (kind == "sandwich") {
    return {std::make_shared<Sandwich>(given.integer("heads"), given.integer("width"), given.number("base")), nullptr, {}};
  }
  if (kind == "fire") {
    FireConfig config;
    config.c = given.number("c");
    config.threshold = given.number("threshold");
    config.epsilon = given.number("epsilon");
    config.w1 = given.doubles("w1");
    config.b1 = given.doubles("b1");
    config.w2 = given.doubles("w2");
    config.b2 = given.doubles("b2");
    return {std::make_shared<Fire>(std::move(config)), nullptr, {}};
  }
  ShawTable shaw = shaw_table(given, table);
  auto runs = shaw.runs();
  if (kind == "shawKeys") {
    return {std::make_shared<ShawKeys>(std::move(shaw), given.choice<ShawContent>("content")), nullptr, std::move(runs)};
  }
  return {nullptr, std::make_shared<ShawValues>(std::move(shaw)), std::move(runs)};
}

}  // namespace

Terms* make_terms(val options, Address table, std::size_t count) noexcept {
  return guarded([&] { return new Terms(read_terms(Options(options), floats(table, count))); });
}

val terms_describe(const Terms& terms) {
  return to_object(terms.score ? terms.score->describe() : terms.value->describe());
}

bool terms_needs_content(const Terms& terms) noexcept { return terms.score && terms.score->needs_content(); }

bool terms_shift_invariant(const Terms& terms) noexcept { return terms.score && terms.score->shift_invariant(); }

val terms_runs(const Terms& terms) {
  List list;
  for (std::size_t i = 0; i < terms.runs.size(); ++i) {
    Object run;
    run.set("entry", static_cast<double>(terms.runs[i].entry));
    run.set("first", static_cast<double>(terms.runs[i].first));
    run.set("last", static_cast<double>(terms.runs[i].last));
    list.add(run);
  }
  return list;
}

void terms_bias(const Terms& terms, int heads, Address query_block, Address key_block, Address out,
                std::size_t count) noexcept {
  guarded([&] {
    if (!terms.score || terms.score->needs_content()) {
      fail(ErrorCode::kUnsupported, "bias: this term reads contents; Attention::explain shows what it does");
    }
    const Positions queries = read_positions(query_block), keys = read_positions(key_block);
    if (queries.rows() > 1 || keys.rows() > 1) {
      fail(ErrorCode::kArgument, "bias: the positions have ", queries.rows() > 1 ? queries.rows() : keys.rows(),
           " rows, expected 1");
    }
    terms.score->require_fits(heads, heads, 1);
    const std::size_t cells = queries.tokens() * keys.tokens();
    require_size("bias", "out", count, cells * static_cast<std::size_t>(heads), "heads x queries x keys");
    const auto scores = floats(out, count);
    std::fill(scores.begin(), scores.end(), 0.0f);
    if (cells == 0) return;
    ScoreTile tile;
    tile.query_rows = queries.tokens();
    tile.keys = keys.tokens();
    tile.query_position = queries.position().data();
    tile.key_position = keys.position().data();
    for (tile.head = 0; tile.head < heads; ++tile.head) {
      tile.kv_head = tile.head;
      terms.score->add(tile, scores.data() + static_cast<std::size_t>(tile.head) * cells, tile.keys);
    }
  });
}

namespace {

CopeConfig read_cope(const Options& given) {
  return {given.integer("heads"), given.integer("kvHeads"), given.integer("headDim"), given.integer("maxPositions"),
          given.number("scale")};
}

}  // namespace

void cope_forward(val options, Address q, std::size_t q_count, Address k, std::size_t k_count, Address table,
                  std::size_t table_count, Address visible, std::size_t visibles, Address out, std::size_t count) noexcept {
  guarded([&] {
    const Options given(options);
    const std::vector<float> bias =
        cope_bias(read_cope(given), floats(q, q_count), given.long_integer("queries"), floats(k, k_count),
                  given.long_integer("keys"), floats(table, table_count), bytes(visible, visibles));
    require_size("cope_bias", "out", count, bias.size(), "heads x queries x keys");
    std::copy(bias.begin(), bias.end(), floats(out, count).begin());
  });
}

val describe_cope(val options) noexcept {
  return guarded([&] { return to_object(describe(read_cope(Options(options)))); });
}

val shifted(Address x, std::size_t count, double rows, double columns, double keys) noexcept {
  return guarded([&] {
    const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns), k = static_cast<std::int64_t>(keys);
    const std::vector<float> out = k == 0 ? relative_shift(floats(x, count), r, c) : relative_shift_xlnet(floats(x, count), r, c, k);
    return to_array(std::span<const float>(out));
  });
}

}  // namespace locant::wasm
