// Checkpoints: a tiny Llama (and GPT-2) of transformers, from its safetensors file and config values, gives its logits.
#include <doctest/doctest.h>

#include "decoder_models.hpp"
#include "locant/decoder/generation.hpp"
#include "locant/decoder/llama.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

LlamaParameters parameters_of(const Json& config) {
  LlamaParameters out;
  out.vocab_size = config.at("vocab_size");
  out.hidden_size = config.at("hidden_size");
  out.intermediate_size = config.at("intermediate_size");
  out.num_hidden_layers = config.at("num_hidden_layers");
  out.num_attention_heads = config.at("num_attention_heads");
  out.num_key_value_heads = config.at("num_key_value_heads").get<std::int32_t>();
  out.head_dim = config.at("head_dim").get<std::int32_t>();
  out.rms_norm_eps = config.at("rms_norm_eps").get<double>();
  out.embeddings = config.at("tie_word_embeddings").get<bool>() ? Embeddings::kTied : Embeddings::kSeparate;
  const Json& rope = config.at("rope_parameters");
  out.rope_theta = rope.at("rope_theta");
  if (rope.at("rope_type") == "llama3") {
    out.rope_rule = Llama3Rule{rope.at("factor"), rope.at("low_freq_factor"), rope.at("high_freq_factor"),
                               rope.at("original_max_position_embeddings")};
  } else {
    REQUIRE(rope.at("rope_type") == "default");
  }
  return out;
}

Decoder load(const Json& config) {
  const auto file = load_bytes(config.at("weights"));
  const Safetensors source(file);
  const DecoderConfig decoder = llama_config(parameters_of(config));
  return Decoder(decoder, load_weights(decoder, {&source, 1}));
}

// GPT-2 stores [in, out] and one matrix for query, key and value; in our names and layout it is the same decoder.
Weights from_gpt2(const Safetensors& source, const DecoderConfig& config) {
  const auto values = [&](const std::string& name) {
    const StoredTensor* tensor = source.find(source.find("transformer." + name) ? "transformer." + name : name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    std::vector<float> out(tensor_size("test", tensor->info));
    source.read(*tensor, out);
    return out;
  };
  Weights weights;
  for (const TensorInfo& info : decoder_tensors(config)) {
    std::string name = info.name;
    std::size_t part = 0, parts = 1;
    const auto replace = [&](const std::string& from, const std::string& to) {
      const auto at = name.find(from);
      if (at != std::string::npos) name.replace(at, from.size(), to);
      return at != std::string::npos;
    };
    replace("model.layers.", "h.");
    replace("model.norm.", "ln_f.");
    replace("model.embed_tokens", "wte");
    replace("model.embed_positions", "wpe");
    replace("input_layernorm", "ln_1");
    replace("post_attention_layernorm", "ln_2");
    bool matrix = replace("self_attn.o_proj", "attn.c_proj");
    matrix |= replace("mlp.up_proj", "mlp.c_fc");
    matrix |= replace("mlp.down_proj", "mlp.c_proj");
    const char* const qkv[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    for (std::size_t p = 0; p < 3; ++p) {
      if (replace(qkv[p], "attn.c_attn")) part = p, parts = 3, matrix = true;
    }
    const std::vector<float> stored = values(name);
    const auto outputs = static_cast<std::size_t>(info.shape[0]);
    const std::span<float> to = weights.add(info);
    if (matrix && info.shape.size() == 2) {
      const auto inputs = static_cast<std::size_t>(info.shape[1]);
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t i = 0; i < inputs; ++i) to[o * inputs + i] = stored[i * outputs * parts + part * outputs + o];
      }
    } else {
      std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(part * outputs), to.size(), to.begin());
    }
  }
  return weights;
}

Decoder load_gpt2(const Json& c) {
  DecoderConfig config;
  config.vocabulary = c.at("vocab_size");
  config.width = c.at("n_embd");
  config.heads = config.kv_heads = c.at("n_head");
  config.head_dim = config.width / config.heads;
  config.feed_forward_width = c.at("n_inner");
  config.norm = Norm::kLayer;
  config.norm_epsilon = c.at("layer_norm_epsilon");
  config.feed_forward = FeedForward::kPlain;
  REQUIRE(c.at("activation_function") == "gelu_new");
  config.activation = Activation::kGeluTanh;
  config.biases = Biases::kAll;
  config.input_position = learned(c.at("n_positions"), config.width);
  config.layers.resize(c.at("n_layer"));
  const auto file = load_bytes(c.at("weights"));
  return Decoder(config, from_gpt2(Safetensors(file), config));
}

// Gemma 2: the same decoder with norms on both sides, (1 + w), scaled embeddings, soft caps, a window in every other layer.
Decoder load_gemma2(const Json& c) {
  DecoderConfig config = llama_config(parameters_of(c));
  config.norm = Norm::kRmsFromOne;
  config.norm_placement = NormPlacement::kBeforeAndAfter;
  REQUIRE(c.at("hidden_activation") == "gelu_pytorch_tanh");
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  config.logit_soft_cap = c.at("final_logit_softcapping").get<double>();
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    layer.scale = 1 / std::sqrt(c.at("query_pre_attn_scalar").get<double>());
    layer.soft_cap = c.at("attn_logit_softcapping").get<double>();
    if (c.at("layer_types")[i] == "sliding_attention") layer.mask.window = Window{c.at("sliding_window"), WindowConvention::kCountsCurrent, 0};
  }
  const auto file = load_bytes(c.at("weights"));
  const Safetensors source(file);
  return Decoder(config, load_weights(config, {&source, 1}));
}

// MPT: ALiBi, LayerNorm without bias (given here as one of zeros), plain GELU, q, k and v in one matrix.
Decoder load_mpt(const Json& c) {
  DecoderConfig config;
  config.vocabulary = c.at("vocab_size");
  config.width = c.at("d_model");
  config.heads = config.kv_heads = c.at("n_heads");
  config.head_dim = config.width / config.heads;
  config.feed_forward_width = config.width * c.at("expansion").get<std::int32_t>();
  config.norm = Norm::kLayer;
  config.norm_epsilon = c.at("layer_norm_epsilon");
  config.feed_forward = FeedForward::kPlain;
  config.activation = Activation::kGelu;
  config.layers.resize(c.at("n_layers"));
  for (LayerConfig& layer : config.layers) layer.score_terms = {std::make_shared<Alibi>(alibi_slopes(config.heads))};
  const auto file = load_bytes(c.at("weights"));
  const Safetensors source(file);
  Weights weights;
  for (const TensorInfo& info : decoder_tensors(config)) {
    const std::span<float> to = weights.add(info);
    if (info.name.ends_with(".bias")) continue;
    std::string name = info.name;
    std::size_t part = 0;
    const std::pair<const char*, const char*> names[] = {
        {"model.layers.", "transformer.blocks."}, {"model.norm.", "transformer.norm_f."}, {"model.embed_tokens", "transformer.wte"},
        {"input_layernorm", "norm_1"}, {"post_attention_layernorm", "norm_2"}, {"self_attn.o_proj", "attn.out_proj"},
        {"mlp.up_proj", "ffn.up_proj"}, {"mlp.down_proj", "ffn.down_proj"}, {"self_attn.q_proj", "attn.Wqkv"},
        {"self_attn.k_proj", "attn.Wqkv"}, {"self_attn.v_proj", "attn.Wqkv"}};
    if (name.find("k_proj") != std::string::npos) part = 1;
    if (name.find("v_proj") != std::string::npos) part = 2;
    for (const auto& [ours, theirs] : names) {
      const auto at = name.find(ours);
      if (at != std::string::npos) name.replace(at, std::string(ours).size(), theirs);
    }
    const StoredTensor* tensor = source.find(name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    std::vector<float> stored(tensor_size("test", tensor->info));
    source.read(*tensor, stored);
    std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(part * to.size()), to.size(), to.begin());
  }
  return Decoder(config, std::move(weights));
}

// The tiny Llama's weights under the rule, window, temperature or layers without position that a case names.
Decoder load_variant(const Json& shape, const Json& c) {
  const Json& p = c.at("parameters");
  const Json& rope = p.at("rope_parameters");
  const std::string type = rope.at("rope_type");
  const double maximum = p.at("max_position_embeddings"), original = rope.value("original_max_position_embeddings", maximum);
  Json config = shape;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", rope.at("rope_theta")}};
  LlamaParameters parameters = parameters_of(config);
  parameters.length = static_cast<std::int64_t>(c.at("inputs").at("tokens").at("data").size());
  if (type == "linear") parameters.rope_rule = LinearRule{.factor = rope.at("factor")};
  if (type == "dynamic") parameters.rope_rule = DynamicNtkRule{rope.at("factor"), p.at("max_position_embeddings").get<std::int64_t>()};
  if (type == "yarn") {
    YarnRule rule;
    rule.factor = rope.at("factor"), rule.original_length = original;
    if (rope.contains("beta_fast")) rule.beta_fast = rope.at("beta_fast"), rule.beta_slow = rope.at("beta_slow");
    if (rope.contains("truncate") && !rope.at("truncate").get<bool>()) rule.ramp_ends = RampEnds::kExact;
    if (rope.contains("attention_factor")) rule.attention_factor = rope.at("attention_factor").get<double>();
    if (rope.contains("mscale")) rule.mscale = rope.at("mscale").get<double>(), rule.mscale_all_dim = rope.at("mscale_all_dim").get<double>();
    parameters.rope_rule = rule;
  }
  if (type == "longrope") {
    LongRopeRule rule;
    rule.short_factors = rope.at("short_factor").get<std::vector<double>>(), rule.long_factors = rope.at("long_factor").get<std::vector<double>>();
    rule.original_length = static_cast<std::int64_t>(original), rule.factor = rope.at("factor").get<double>();
    parameters.rope_rule = rule;
  }
  if (p.contains("sliding_window") && p.at("sliding_window").is_number()) parameters.sliding_window = p.at("sliding_window").get<std::int32_t>();
  DecoderConfig decoder = llama_config(parameters);
  for (std::size_t i = 0; i < decoder.layers.size(); ++i) {
    if (p.contains("no_rope_layers") && p.at("no_rope_layers")[i] == 0) decoder.layers[i].rotation.reset();
    if (rope.contains("llama_4_scaling_beta")) {
      decoder.layers[i].temperature = Temperature{.slope = rope.at("llama_4_scaling_beta"), .period = original, .shift = 0};
    }
  }
  const auto file = load_bytes(shape.at("weights"));
  const Safetensors source(file);
  return Decoder(decoder, load_weights(decoder, {&source, 1}));
}

// transformers computes in float32 too, angles included, in other orders; its logits here are of size 10.
constexpr double kTolerance = 1e-4;

void check_against(Decoder& decoder, const Json& vectors) {
  const auto vocabulary = static_cast<std::size_t>(decoder.config().vocabulary);
  int checked = 0;
  for (const Json& c : vectors.at("cases")) {
    const std::string name = c.at("name");
    CAPTURE(name);
    const Json& expected = c.at("expected");
    const auto tokens = ints_of(c.at("inputs").at("tokens"));
    if (name.starts_with("greedy")) {
      GenerationConfig config;
      config.new_tokens = c.at("parameters").at("new_tokens");
      const std::vector<std::vector<std::int32_t>> prompts = {tokens};
      CHECK(generate(decoder, prompts, config)[0].tokens == ints_of(expected.at("generated")));
      // What makes equal tokens certain: no gap between first and second is near the tolerance.
      for (const float margin : floats_of(expected.at("margins"))) CHECK(margin > 10 * kTolerance);
    } else if (name == "packed row") {
      const std::vector<std::int32_t> lengths = c.at("parameters").at("lengths");
      const Positions packed = Positions::packed(lengths, PackedPositions::kRestart);
      const auto stored = ints_of(c.at("inputs").at("positions"));
      CHECK(std::equal(stored.begin(), stored.end(), packed.position().begin(), packed.position().end()));
      CHECK(max_difference(full_logits(decoder, tokens, packed), floats_of(expected.at("logits"))) < kTolerance);
    } else {
      Positions positions = Positions::range(static_cast<std::int64_t>(tokens.size()));
      if (c.at("inputs").contains("attention_mask")) {
        const auto shape = shape_of(c.at("inputs").at("tokens"));
        const auto mask = values_of<std::uint8_t>(c.at("inputs").at("attention_mask"));
        positions = Positions::from_padding_mask(shape[0], shape[1], mask);
        const auto stored = ints_of(c.at("inputs").at("positions"));
        CHECK(std::equal(stored.begin(), stored.end(), positions.position().begin(), positions.position().end()));
      } else if (c.at("inputs").contains("positions")) {
        positions = Positions::range(static_cast<std::int64_t>(tokens.size()), ints_of(c.at("inputs").at("positions"))[0]);
      }
      const bool last = expected.contains("last_logits");
      const auto reference = floats_of(expected.at(last ? "last_logits" : "logits"));
      const auto wanted = last ? last_tokens(positions) : valid_tokens(positions);
      std::vector<float> logits(wanted.size() * vocabulary);
      decoder.forward(tokens, positions, wanted, logits);
      CHECK(max_difference(logits, reference) < kTolerance);
      Cache cache = decoder.make_cache(positions.rows());
      decoder.forward(tokens, positions, cache, wanted, logits);
      CHECK(max_difference(logits, reference) < kTolerance);
    }
    ++checked;
  }
  CHECK(checked > 0);
}

ErrorCode code_of(auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no error");
  return ErrorCode::kUnsupported;
}

}  // namespace

TEST_CASE("llama: logits, padded and packed batches and greedy tokens equal transformers'") {
  for (const char* name : {"decoder_llama", "decoder_llama_llama3", "decoder_llama_bf16", "decoder_llama_f16"}) {
    CAPTURE(name);
    const Json vectors = load_vectors(name);
    Decoder decoder = load(vectors.at("config"));
    check_against(decoder, vectors);
  }
}

TEST_CASE("gpt2: the same decoder with LayerNorm, biases, plain GELU and a learned table equals transformers' GPT-2") {
  const Json vectors = load_vectors("decoder_gpt2");
  Decoder decoder = load_gpt2(vectors.at("config"));
  check_against(decoder, vectors);
}

TEST_CASE("gemma 2: norms on both sides, scaled embeddings, soft caps and alternating windows equal transformers' Gemma 2") {
  const Json vectors = load_vectors("decoder_gemma2");
  Decoder decoder = load_gemma2(vectors.at("config"));
  check_against(decoder, vectors);
}

TEST_CASE("mpt: ALiBi and LayerNorm without bias equal transformers' MPT") {
  const Json vectors = load_vectors("decoder_mpt");
  Decoder decoder = load_mpt(vectors.at("config"));
  check_against(decoder, vectors);
}

TEST_CASE("llama: other rotary rules, layers without position, temperature and window equal transformers' models") {
  const Json vectors = load_vectors("decoder_llama_variants");
  for (const Json& c : vectors.at("cases")) {
    Decoder decoder = load_variant(vectors.at("config"), c);
    check_against(decoder, Json{{"cases", Json::array({c})}});
  }
}

TEST_CASE("llama: Llama 3 scaling is not the default's logits, so that the vectors can tell") {
  const Json scaled = load_vectors("decoder_llama_llama3"), plain = load_vectors("decoder_llama");
  const auto a = floats_of(scaled.at("cases")[0].at("expected").at("logits"));
  const auto b = floats_of(plain.at("cases")[0].at("expected").at("logits"));
  CHECK(max_difference(a, b) > 0.1);
}

TEST_CASE("llama: a checkpoint in several files, with leftovers, loads; missing, double, foreign and misshapen tensors do not") {
  LlamaParameters parameters;
  parameters.vocab_size = 16, parameters.hidden_size = 8, parameters.intermediate_size = 12, parameters.num_hidden_layers = 2;
  parameters.num_attention_heads = 2, parameters.num_key_value_heads = 1, parameters.embeddings = Embeddings::kTied;
  const DecoderConfig config = llama_config(parameters);
  CHECK(config.head_dim == 4);
  const Weights weights = random_weights(config, 1);
  Weights first, second;
  for (std::size_t i = 0; i < weights.tensors(); ++i) {
    const auto to = (i % 2 ? first : second).add(weights.info(i));
    std::copy(weights.values(i).begin(), weights.values(i).end(), to.begin());
  }
  first.add({"lm_head.weight", {16, 8}});
  second.add({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  const auto file_a = write_safetensors(first), file_b = write_safetensors(second);
  const std::vector<Safetensors> both = {Safetensors(file_a), Safetensors(file_b)};
  const Weights loaded = load_weights(config, both);
  REQUIRE(loaded.tensors() == weights.tensors());
  for (std::size_t i = 0; i < weights.tensors(); ++i) CHECK(std::equal(loaded.values(i).begin(), loaded.values(i).end(), weights.values(i).begin()));

  check_error(ErrorCode::kFormat, "load_weights: there is no tensor model.embed_tokens.weight, expected one of 16 x 8", [&] { load_weights(config, std::span(both).first(1)); });
  const std::vector<Safetensors> twice = {both[0], both[1], both[0]};
  check_error(ErrorCode::kFormat, "comes twice", [&] { load_weights(config, twice); });
  Weights foreign = weights.clone();
  foreign.add({"model.layers.0.self_attn.q_norm.weight", {4}});
  const auto file_c = write_safetensors(foreign);
  const Safetensors c(file_c);
  check_error(ErrorCode::kFormat, "q_norm.weight, which this configuration does not read", [&] { load_weights(config, {&c, 1}); });
  Weights separate = weights.clone();
  separate.add({"lm_head.weight", {16, 8}});
  const auto file_d = write_safetensors(separate);
  const Safetensors d(file_d);
  DecoderConfig untied = config;
  untied.embeddings = Embeddings::kSeparate;
  CHECK_NOTHROW(load_weights(config, {&d, 1}));
  CHECK_NOTHROW(load_weights(untied, {&d, 1}));
  DecoderConfig wider = config;
  wider.feed_forward_width = 13;
  check_error(ErrorCode::kFormat, "is 12 x 8, expected 13 x 8", [&] { load_weights(wider, both); });
}

TEST_CASE("llama: parameters become the configuration, or a sentence") {
  LlamaParameters p;
  p.vocab_size = 16, p.hidden_size = 10, p.num_attention_heads = 4, p.num_hidden_layers = 1, p.intermediate_size = 8;
  check_error(ErrorCode::kArgument, "hidden_size 10 does not divide by 4 heads, and head_dim is not given", [&] { llama_config(p); });
  p.head_dim = 6, p.sliding_window = 7, p.num_key_value_heads = 2, p.partial_rotary_factor = 0.7;
  const DecoderConfig config = llama_config(p);
  CHECK(config.kv_heads == 2);
  CHECK(config.layers[0].rotation->rotated_width() == 4);  // int(6 * 0.7)
  REQUIRE(config.layers[0].mask.window.has_value());
  CHECK(config.layers[0].mask.window->size == 7);
  const auto refused = [&](auto&& change) {
    LlamaParameters bad = p;
    change(bad);
    return code_of([&] { llama_config(bad); });
  };
  // In the names of the file, not of this library.
  const auto says = [&](const char* sentence, auto&& change) {
    LlamaParameters bad = p;
    change(bad);
    check_error(ErrorCode::kArgument, sentence, [&] { llama_config(bad); });
  };
  says("llama_config: vocab_size is 0, expected 1 to", [](auto& b) { b.vocab_size = 0; });
  says("llama_config: intermediate_size is -1, expected 1 to", [](auto& b) { b.intermediate_size = -1; });
  says("llama_config: num_hidden_layers is 0, expected 1 to 65536", [](auto& b) { b.num_hidden_layers = 0; });
  says("llama_config: num_key_value_heads is 5, expected 1 to 4", [](auto& b) { b.num_key_value_heads = 5; });
  says("llama_config: num_attention_heads is 4, expected a multiple of num_key_value_heads, 3", [](auto& b) { b.num_key_value_heads = 3; });
  says("llama_config: rms_norm_eps is -1, expected 0 or more", [](auto& b) { b.rms_norm_eps = -1; });
  says("llama_config: rope_theta is -1", [](auto& b) { b.rope_theta = -1; });
  says("llama_config: partial_rotary_factor is 1.5, expected a number above 0 and at most 1", [](auto& b) { b.partial_rotary_factor = 1.5; });
  CHECK(refused([](auto& b) { b.rope_rule = DynamicNtkRule{2, 64}; }) == ErrorCode::kArgument);  // no length given
  CHECK(refused([](auto& b) { b.sliding_window = 0; }) == ErrorCode::kArgument);
}
