#include "adapters.hpp"
#include "locant/decoder/audit_tests.hpp"
#include "locant/decoder/generation.hpp"
#include "locant/decoder/lanes.hpp"
#include "locant/decoder/llama.hpp"
#include "locant/decoder/safetensors.hpp"

namespace locant::wasm {
namespace {

InputPosition read_input_position(const Options& given) {
  if (given.has("sinusoidal")) return read_sinusoidal(Options(given.member("sinusoidal")));
  if (given.has("learnedTable")) return read_table(Options(given.member("learnedTable")));
  if (given.has("gridSinusoidal")) return read_grid_sinusoidal(Options(given.member("gridSinusoidal")));
  return {};
}

DecoderConfig read_config(const val& object) {
  const Options given(object);
  DecoderConfig config;
  config.vocabulary = given.integer("vocabulary");
  config.width = given.integer("width");
  config.heads = given.integer("heads");
  config.kv_heads = given.integer("kvHeads");
  config.head_dim = given.integer("headDim");
  config.feed_forward_width = given.integer("feedForwardWidth");
  config.norm = given.choice<Norm>("norm");
  config.norm_placement = given.choice<NormPlacement>("normPlacement");
  config.norm_epsilon = given.number("normEpsilon");
  config.feed_forward = given.choice<FeedForward>("feedForward");
  config.activation = given.choice<Activation>("activation");
  config.embeddings = given.choice<Embeddings>("embeddings");
  config.embedding_scale = given.number("embeddingScale");
  config.logit_soft_cap = given.maybe_number("logitSoftCap");
  config.biases = given.choice<Biases>("biases");
  if (given.has("inputPosition")) config.input_position = read_input_position(Options(given.member("inputPosition")));
  const val layers = given.member("layers");
  const auto count = layers["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    AttentionConfig parts;
    const Options layer(layers[i]);
    read_layer(layer, parts);
    LayerConfig read;
    if (layer.has("rotation")) read.rotation = read_plan(layer.member("rotation"));
    read.score_terms = std::move(parts.score_terms);
    read.value_term = std::move(parts.value_term);
    read.mask = std::move(parts.mask);
    read.scale = parts.scale;
    read.soft_cap = parts.soft_cap;
    read.temperature = parts.temperature;
    config.layers.push_back(std::move(read));
  }
  return config;
}

// Files stay where they are, in JavaScript's memory, and are copied in piece by piece: weights are held once.
Weights read_weights(const DecoderConfig& config, const val& files) {
  std::vector<Safetensors> read;
  const auto count = files["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const val file = files[i];
    read.emplace_back(file["length"].as<double>(), [file](std::uint64_t at, std::span<std::uint8_t> to) {
      const auto first = static_cast<double>(at);
      val(emscripten::typed_memory_view(to.size(), to.data()))
          .call<void>("set", file.call<val>("subarray", first, first + static_cast<double>(to.size())));
    });
  }
  return load_weights(config, read);
}

SamplingConfig read_sampling(const Options& given) {
  return {given.number("temperature"), given.integer("topK"), given.number("topP"), static_cast<std::uint64_t>(given.number("seed"))};
}

GenerationConfig read_generation(const Options& given) {
  GenerationConfig config;
  config.new_tokens = given.integer("newTokens");
  config.stop_tokens = given.integers("stopTokens");
  config.sampling = read_sampling(given);
  config.prefill_chunk = given.integer("prefillChunk");
  return config;
}

// One after another at `tokens`.
std::vector<std::vector<std::int32_t>> read_prompts(Address tokens, Address lengths, std::size_t rows) {
  std::vector<std::vector<std::int32_t>> prompts;
  std::size_t first = 0;
  for (const std::int32_t length : integers(lengths, rows)) {
    const auto prompt = integers(tokens + first * sizeof(std::int32_t), static_cast<std::size_t>(length));
    prompts.emplace_back(prompt.begin(), prompt.end());
    first += prompt.size();
  }
  return prompts;
}

val to_objects(const std::vector<GeneratedRow>& generated) {
  List list;
  for (std::size_t i = 0; i < generated.size(); ++i) {
    Object row;
    row.set("tokens", to_array(std::span<const std::int32_t>(generated[i].tokens)));
    row.set("reason", static_cast<int>(generated[i].reason));
    list.add(row);
  }
  return list;
}

val step_object(const Progress& progress, bool ended) {
  Object object;
  object.set("phase", static_cast<int>(progress.phase));
  object.set("done", progress.done);
  object.set("total", progress.total);
  object.set("rows", to_array(progress.rows));
  object.set("tokens", to_array(progress.tokens));
  object.set("ended", ended);
  return object;
}

std::vector<std::size_t> indices(Address address, std::size_t count) {
  const auto given = integers(address, count);
  return {given.begin(), given.end()};
}

template <class Number>
val maybe(const std::optional<Number>& value) {
  return value ? val(static_cast<double>(*value)) : val::null();
}

val to_objects(const std::vector<MethodInLayers>& methods) {
  List list;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    Object entry;
    entry.set("method", to_object(methods[i].method));
    entry.set("layers", to_array(std::span<const std::int32_t>(methods[i].layers)));
    list.add(entry);
  }
  return list;
}

val token_indices(const std::vector<std::size_t>& tokens) {
  const std::vector<std::int32_t> out(tokens.begin(), tokens.end());
  return to_array(std::span<const std::int32_t>(out));
}

}  // namespace

val llama_decoder_config(val parameters) noexcept {
  return guarded([&] {
    const Options given(parameters);
    LlamaParameters read;
    read.vocab_size = given.integer("vocab_size");
    read.hidden_size = given.integer("hidden_size");
    read.intermediate_size = given.integer("intermediate_size");
    read.num_hidden_layers = given.integer("num_hidden_layers");
    read.num_attention_heads = given.integer("num_attention_heads");
    if (given.has("num_key_value_heads")) read.num_key_value_heads = given.integer("num_key_value_heads");
    if (given.has("head_dim")) read.head_dim = given.integer("head_dim");
    read.rms_norm_eps = given.number("rms_norm_eps");
    read.embeddings = given.choice<Embeddings>("embeddings");
    read.biases = given.choice<Biases>("biases");
    read.rope_theta = given.number("rope_theta");
    read.rope_rule = read_rule(Options(given.member("rope")));
    read.partial_rotary_factor = given.number("partial_rotary_factor");
    read.pairing = given.choice<Pairing>("pairing");
    if (given.has("length")) read.length = given.long_integer("length");
    if (given.has("sliding_window")) read.sliding_window = given.integer("sliding_window");
    const DecoderConfig config = llama_config(read);
    Object object;
    object.set("kvHeads", config.kv_heads);
    object.set("headDim", config.head_dim);
    object.set("rotation", to_object(*config.layers[0].rotation));
    return object;
  });
}

Decoder* make_decoder(val options, val weights) noexcept {
  return guarded([&] {
    DecoderConfig config = read_config(options);
    const Options given(weights);
    if (given.has("safetensors")) {
      Weights read = read_weights(config, given.member("safetensors"));
      return new Decoder(std::move(config), std::move(read));
    }
    RandomScale scale;
    scale.embedding = given.maybe_number("embedding");
    if (given.has("queryKey")) scale.query_key = given.number("queryKey");
    if (given.has("matrix")) scale.matrix = given.number("matrix");
    Weights random = random_weights(config, static_cast<std::uint64_t>(given.number("seed")), scale);
    return new Decoder(std::move(config), std::move(random));
  });
}

double decoder_parameters(const Decoder& decoder) noexcept { return static_cast<double>(decoder.parameters()); }
double decoder_bytes(const Decoder& decoder) noexcept { return static_cast<double>(decoder.bytes()); }

void decoder_prepare(Decoder& decoder, double count) noexcept {
  guarded([&] { decoder.prepare(static_cast<std::int64_t>(count)); });
}

val decoder_safetensors(const Decoder& decoder) noexcept {
  return guarded([&] {
    const std::vector<std::uint8_t> file = write_safetensors(decoder.weights());
    return to_array(std::span<const std::uint8_t>(file));
  });
}

CacheObject* decoder_cache(const Decoder& decoder, val options) noexcept {
  return guarded([&] {
    const Options given(options);
    return new CacheObject{decoder.make_cache(given.integer("sequences"), given.choice<Capacity>("capacity"),
                                              given.long_integer("rows"), given.choice<KeyStorage>("keys"),
                                              given.choice<BackwardPositions>("backward")),
                           std::nullopt};
  });
}

val last_token_indices(Address block) noexcept {
  return guarded([&] { return token_indices(last_tokens(read_positions(block))); });
}

val valid_token_indices(Address block) noexcept {
  return guarded([&] { return token_indices(valid_tokens(read_positions(block))); });
}

void decoder_forward(Decoder& decoder, Address tokens, std::size_t count, Address block, Address wanted,
                     std::size_t wanted_count, Address out, std::size_t out_count, Address prefix, std::size_t prefixes,
                     Address visible, std::size_t visibles) noexcept {
  guarded([&] {
    decoder.forward(integers(tokens, count), read_positions(block), indices(wanted, wanted_count),
                    floats(out, out_count), CallMask{integers(prefix, prefixes), bytes(visible, visibles)});
  });
}

void decoder_forward_cached(Decoder& decoder, CacheObject& cache, Address tokens, std::size_t count, Address block,
                            Address sequences, std::size_t sequence_count, Address wanted, std::size_t wanted_count,
                            Address out, std::size_t out_count, Address prefix, std::size_t prefixes, Address visible,
                            std::size_t visibles) noexcept {
  guarded([&] {
    cache.step.reset();
    decoder.forward(integers(tokens, count), read_positions(block), cache.cache, indices(wanted, wanted_count),
                    floats(out, out_count), integers(sequences, sequence_count),
                    CallMask{integers(prefix, prefixes), bytes(visible, visibles)});
  });
}

val decoder_generate(Decoder& decoder, CacheObject* cache, Address tokens, Address lengths, std::size_t rows,
                     val options) noexcept {
  return guarded([&] {
    const GenerationConfig config = read_generation(Options(options));
    const auto prompts = read_prompts(tokens, lengths, rows);
    if (cache) cache->step.reset();
    return to_objects(cache ? generate(decoder, cache->cache, prompts, config) : generate(decoder, prompts, config));
  });
}

GenerationObject* decoder_generation(Decoder& decoder, CacheObject* cache, Address tokens, Address lengths,
                                     std::size_t rows, val options) noexcept {
  return guarded([&] {
    const auto prompts = read_prompts(tokens, lengths, rows);
    require_range("generate", "the number of prompts", static_cast<std::int64_t>(rows), 1, 1 << 20);
    auto object = std::make_unique<GenerationObject>();
    if (!cache) object->own.reset(new CacheObject{decoder.make_cache(static_cast<std::int32_t>(rows)), std::nullopt});
    object->cache = cache ? cache : object->own.get();
    object->generation.emplace(decoder, object->cache->cache, prompts, read_generation(Options(options)));
    return object.release();
  });
}

val generation_step(GenerationObject& object) noexcept {
  return guarded([&] {
    object.cache->step.reset();
    const Progress progress = object.generation->step();
    return step_object(progress, object.generation->ended());
  });
}

void generation_cancel(GenerationObject& object) noexcept { object.generation->cancel(); }

void generation_roll_back(GenerationObject& object) noexcept {
  guarded([&] {
    object.cache->step.reset();
    object.generation->roll_back();
  });
}

val generation_rows(const GenerationObject& object) noexcept {
  return guarded([&] { return to_objects(object.generation->rows()); });
}

PrefillObject* decoder_prefill(Decoder& decoder, CacheObject& cache, Address tokens, Address lengths, std::size_t rows,
                               int chunk) noexcept {
  return guarded([&] {
    return new PrefillObject{&cache, Prefill("prefill", decoder, cache.cache, read_prompts(tokens, lengths, rows), chunk)};
  });
}

val prefill_step(PrefillObject& object) noexcept {
  return guarded([&] {
    object.cache->step.reset();
    Progress progress{.phase = Phase::kPrefill, .done = 0, .total = object.prefill.total(), .rows = object.prefill.step(), .tokens = {}};
    progress.done = object.prefill.done();
    return step_object(progress, object.prefill.ended());
  });
}

void prefill_roll_back(PrefillObject& object) noexcept {
  guarded([&] {
    object.cache->step.reset();
    object.prefill.roll_back();
  });
}

void prefill_logits(const PrefillObject& object, Address out, std::size_t count) noexcept {
  guarded([&] {
    const std::span<const float> logits = object.prefill.logits();
    require_size("prefill", "logits", count, logits.size(), "prompts x vocabulary");
    std::copy(logits.begin(), logits.end(), floats(out, count).begin());
  });
}

val sample_token(Address logits, std::size_t count, val options) noexcept {
  return guarded([&] {
    const Options given(options);
    Sampler sampler(read_sampling(given));
    const std::span<const float> values = floats(logits, count);
    const std::int32_t token = sampler.sample(values, static_cast<std::uint64_t>(given.number("row")), static_cast<std::uint64_t>(given.number("index")));
    std::vector<std::int32_t> tokens;
    std::vector<double> shares;
    for (const auto& candidate : sampler.candidates(values)) {
      tokens.push_back(candidate.token);
      shares.push_back(candidate.share);
    }
    Object object;
    object.set("token", token);
    object.set("tokens", to_array(std::span<const std::int32_t>(tokens)));
    object.set("shares", to_array(std::span<const double>(shares)));
    return object;
  });
}

val decoder_lanes(Decoder& decoder, Address prompt, std::size_t count, val options) noexcept {
  return guarded([&] {
    const Options given(options);
    LanesConfig config;
    config.steps = given.integer("steps");
    config.offset = given.choice<Offset>("offset");
    config.tolerance = given.number("tolerance");
    config.prefill_chunk = given.integer("prefillChunk");
    const Lanes lanes = compare_lanes(decoder, integers(prompt, count), config);
    List steps;
    for (std::size_t i = 0; i < lanes.steps.size(); ++i) {
      const LaneStep& from = lanes.steps[i];
      Object step;
      step.set("fullPosition", from.full_position);
      step.set("cachedPosition", from.cached_position);
      step.set("fullToken", from.full_token);
      step.set("cachedToken", from.cached_token);
      step.set("difference", from.difference);
      step.set("fullLogit", from.full_logit);
      step.set("cachedLogit", from.cached_logit);
      steps.add(step);
    }
    Object object;
    object.set("steps", steps);
    object.set("largestDifference", lanes.largest_difference);
    object.set("firstPastTolerance", maybe(lanes.first_past_tolerance));
    object.set("firstOtherToken", maybe(lanes.first_other_token));
    return object;
  });
}

val decoder_audit(Decoder& decoder, val options) noexcept {
  return guarded([&] {
    const Options given(options);
    AuditOptions config;
    config.length = given.integer("length");
    config.move = given.integer("move");
    config.seed = static_cast<std::uint64_t>(given.number("seed"));
    config.tolerance = given.number("tolerance");
    config.fault = given.choice<PositionFault>("fault");
    const AuditReport report = run_audit_tests(decoder, config);
    List lines;
    for (std::size_t i = 0; i < report.lines.size(); ++i) {
      const AuditLine& from = report.lines[i];
      Object line;
      line.set("test", from.test);
      line.set("claim", from.claim);
      line.set("residual", from.residual);
      line.set("tolerance", from.tolerance);
      line.set("expectation", static_cast<int>(from.expectation));
      line.set("verdict", static_cast<int>(from.verdict));
      line.set("note", from.note);
      lines.add(line);
    }
    Object object;
    object.set("methods", to_objects(report.methods));
    object.set("lines", lines);
    object.set("passed", report.passed());
    object.set("text", to_text(report));
    return object;
  });
}

val decoder_describe(const Decoder& decoder) noexcept {
  return guarded([&] { return to_objects(describe_methods(decoder.config())); });
}

}  // namespace locant::wasm
