// What bindings.cpp names: the library's calls in the shape that crosses the boundary. Addresses are of memory from
// allocate(); counts are in values; blocks of positions are as boundary.hpp says. Every function may record a fault, after
// which its result means nothing.
#pragma once

#include <memory>
#include <optional>

#include "boundary.hpp"
#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/attention/cache.hpp"
#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/decoder/generation.hpp"
#include "locant/rotary/decoupled.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"

namespace locant::wasm {

val build_info();

// `count` numbers of a seed and a named stream.
void random_numbers(double seed, const std::string& stream, Address out, std::size_t count) noexcept;

// ---- position_adapter.cpp: each replies with a block of positions -----------------------------------------------------

Address positions_range(double count, double offset) noexcept;
Address positions_ragged(Address lengths, std::size_t rows, Address offsets, std::size_t offset_count) noexcept;
Address positions_padded(Address lengths, std::size_t rows, double columns, int side, Address offsets,
                         std::size_t offset_count) noexcept;
Address positions_from_padding_mask(double rows, double columns, Address mask, std::size_t mask_count, Address offsets,
                                    std::size_t offset_count) noexcept;
Address positions_packed(Address lengths, std::size_t segments, int positions) noexcept;
// Arrays that are left out have count 0.
Address positions_from(Address lengths, std::size_t rows, Address position, std::size_t axes, std::size_t tokens,
                       Address order, std::size_t orders, Address segment, std::size_t segments, Address valid,
                       std::size_t valids) noexcept;
Address positions_from_cu_seqlens(Address cu_seqlens, std::size_t count, int positions) noexcept;
Address positions_from_segment_ids(double rows, double columns, Address ids, std::size_t count, val padding_id,
                                   int positions) noexcept;
Address positions_grid(val options) noexcept;
// rows: of each, runs; a run is { tokens } or { frames, height, width, timeStep }.
Address positions_multimodal(val rows, int after, int side) noexcept;
val positions_cu_seqlens(Address block, int row) noexcept;
Address positions_row(Address block, int row) noexcept;
Address positions_slice(Address block, double first, double count) noexcept;
Address positions_next(Address block, Address counts, std::size_t rows) noexcept;
double positions_delta(Address block, int row) noexcept;
// The positions of the result are the reply, its address is their member; 0 where the evidence contradicts itself.
val interpret_positions(val evidence) noexcept;
// [{ tokens } or { frames, height, width, timeStep }, ...]
val runs_of_token_kinds(val options) noexcept;

// ---- absolute_adapter.cpp: door 1 -------------------------------------------------------------------------------------

SinusoidalConfig read_sinusoidal(const Options& given);
TableConfig read_table(const Options& given);
GridSinusoidalConfig read_grid_sinusoidal(const Options& given);

Sinusoidal* make_sinusoidal(val options) noexcept;
val sinusoidal_frequencies(const Sinusoidal& sinusoidal);
void sinusoidal_prepare(Sinusoidal& sinusoidal, double count) noexcept;
void sinusoidal_encode(const Sinusoidal& sinusoidal, Address block, Address out, std::size_t count) noexcept;
void sinusoidal_add(const Sinusoidal& sinusoidal, Address x, Address block, std::size_t count) noexcept;  // in place
val sinusoidal_describe(const Sinusoidal& sinusoidal);

GridSinusoidal* make_grid_sinusoidal(val options) noexcept;
val grid_sinusoidal_frequencies(const GridSinusoidal& grid);
void grid_sinusoidal_encode(const GridSinusoidal& grid, Address block, Address out, std::size_t count) noexcept;
void grid_sinusoidal_add(const GridSinusoidal& grid, Address x, Address block, std::size_t count) noexcept;  // in place
val grid_sinusoidal_describe(const GridSinusoidal& grid);

LearnedTable* make_learned_table(val options, Address values, std::size_t count) noexcept;
double learned_table_rows(const LearnedTable& table) noexcept;
Address learned_table_fit(const LearnedTable& table, Address block) noexcept;
val learned_table_rows_of(const LearnedTable& table, Address block) noexcept;
void learned_table_require_length(const LearnedTable& table, double length) noexcept;
void learned_table_encode(const LearnedTable& table, Address block, Address out, std::size_t count) noexcept;
void learned_table_add(const LearnedTable& table, Address x, std::size_t count, Address block, Address out,
                       std::size_t out_count) noexcept;
val learned_table_describe(const LearnedTable& table);
val learned_table_values(const LearnedTable& table);
// How many tokens read each row, as doubles.
val learned_table_count(const LearnedTable& table, Address block) noexcept;

void detr_sinusoids(val options, Address mask, std::size_t cells, Address out, std::size_t count) noexcept;
val describe_detr(val options) noexcept;
val interpolated_rows(val options, Address values, std::size_t count) noexcept;
val interpolated_grid(val options, Address values, std::size_t count) noexcept;
val describe_interpolated_grid(val options) noexcept;

// ---- rotary_adapter.cpp: door 2 ---------------------------------------------------------------------------------------

val rotary_plan(val rule) noexcept;
val axial_rotary_plan(int convention, int head_dim, double base) noexcept;
val pixel_rotary_plan(val options) noexcept;
// In place: `rows` blocks of heads * head_dim rows of `columns` values (weights: one block; queries: columns 1).
void convert_pairing(Address values, std::size_t count, double rows, double columns, val heads, int from, int to) noexcept;
RotaryPlan read_plan(const val& plan);
RotaryRule read_rule(const Options& given);
val to_object(const RotaryPlan& plan);
val scale_plan_axes(val plan, val factors) noexcept;
// In words; empty where both rotate alike.
val plan_difference(val a, val b) noexcept;
// { kinds: [plan or null, ...], kindOfLayer, layersWithoutPosition, descriptions }
val layer_plans(val options) noexcept;
val pairing_residuals(val plan, int head_dim, int heads, Address x, Address rotated, std::size_t count, Address block) noexcept;
val describe_plan(val plan) noexcept;
Rotation* make_rotation(val plan, int head_dim) noexcept;
void rotation_prepare(Rotation& rotation, double count) noexcept;
void rotation_apply(const Rotation& rotation, Address x, std::size_t count, Address block, int heads, int role,
                    int direction) noexcept;  // in place; direction 1 turns, -1 turns back
double rotation_reach(const Rotation& rotation) noexcept;
void rotation_advance(const Rotation& rotation, Address key, std::size_t count, double delta) noexcept;  // in place

DecoupledRotation* make_decoupled_rotation(val plan, int plain_dim, int rotary_dim) noexcept;
void decoupled_rotation_prepare(DecoupledRotation& rotation, double count) noexcept;
val decoupled_rotation_describe(const DecoupledRotation& rotation) noexcept;
void decoupled_rotation_apply_query(const DecoupledRotation& rotation, Address q, std::size_t count, Address block,
                                    int heads) noexcept;  // in place
void decoupled_rotation_join_key(const DecoupledRotation& rotation, Address plain, std::size_t plains, Address shared,
                                 std::size_t shareds, Address block, int heads, Address out, std::size_t count) noexcept;

// ---- bias_adapter.cpp: door 3 -----------------------------------------------------------------------------------------

// One term, of either kind; shared with the attentions that were made with it.
struct Terms {
  std::shared_ptr<const ScoreTerm> score;
  std::shared_ptr<const ValueTerm> value;
  std::vector<DisplacementRun> runs;  // what a clip or bucket merges; empty where nothing is
};

// options.kind says which; `table` is its table, where it has one.
Terms* make_terms(val options, Address table, std::size_t count) noexcept;
val terms_describe(const Terms& terms);
bool terms_needs_content(const Terms& terms) noexcept;
bool terms_shift_invariant(const Terms& terms) noexcept;
val terms_runs(const Terms& terms);
// out: [heads, query tokens, key tokens] of batches of one row.
void terms_bias(const Terms& terms, int heads, Address query_block, Address key_block, Address out,
                std::size_t count) noexcept;
// out: [heads, queries, keys]
void cope_forward(val options, Address q, std::size_t q_count, Address k, std::size_t k_count, Address table,
                  std::size_t table_count, Address visible, std::size_t visibles, Address out, std::size_t count) noexcept;
val describe_cope(val options) noexcept;
// `keys` 0: Transformer-XL's; else XLNet's.
val shifted(Address x, std::size_t count, double rows, double columns, double keys) noexcept;

// ---- attention_adapter.cpp --------------------------------------------------------------------------------------------

struct AttentionObject {
  std::shared_ptr<Rotation> rotation;
  Attention attention;
};

struct CacheObject {
  Cache cache;
  std::optional<CacheStep> step;  // of the last begin()
  double serial = 0;              // which begin() that was
};

// Mask, terms, scale, soft cap and temperature.
void read_layer(const Options& given, AttentionConfig& config);

AttentionObject* make_attention(val options) noexcept;
void attention_prepare(AttentionObject& object, double count) noexcept;
val attention_describe(const AttentionObject& object) noexcept;
// The tensors of a call: address and count of q, k, v, out. Of a query block of 0: queries are the keys' tokens.
void attention_attend(const AttentionObject& object, Address tensors, Address query_block, Address key_block,
                      Address prefix, std::size_t prefixes, Address visible, std::size_t visibles) noexcept;
void attention_attend_cached(const AttentionObject& object, CacheObject& cache, double serial, int layer,
                             Address tensors, Address prefix, std::size_t prefixes, Address visible,
                             std::size_t visibles) noexcept;
// requests: pairs of head and query token.
val attention_explain(const AttentionObject& object, Address tensors, Address query_block, Address key_block,
                      Address requests, std::size_t request_count, Address prefix, std::size_t prefixes,
                      Address visible, std::size_t visibles) noexcept;

// ---- cache_adapter.cpp ------------------------------------------------------------------------------------------------

CacheObject* make_cache(val options) noexcept;
double cache_rows(const CacheObject& object, int sequence) noexcept;
double cache_capacity(const CacheObject& object, int sequence) noexcept;
double cache_bytes(const CacheObject& object) noexcept;
Address cache_positions(const CacheObject& object, int sequence) noexcept;
Address cache_next(const CacheObject& object, Address counts, std::size_t count, Address sequences,
                   std::size_t sequence_count) noexcept;
double cache_begin(CacheObject& object, Address block, Address sequences, std::size_t sequence_count) noexcept;
void cache_cancel(CacheObject& object, double serial) noexcept;
void cache_truncate(CacheObject& object, int sequence, double rows) noexcept;
void cache_evict(CacheObject& object, int sequence, Address rows, std::size_t count) noexcept;
void cache_keep_window(CacheObject& object, int sequence, double sinks, double window) noexcept;
void cache_clear(CacheObject& object, int sequence) noexcept;
void cache_fork(CacheObject& object, int from, int to) noexcept;
void cache_shift(CacheObject& object, int sequence, double first, double last, double delta, int positions_in) noexcept;
void cache_divide(CacheObject& object, int sequence, double first, double last, int divisor, int positions_in) noexcept;
void cache_read(const CacheObject& object, int sequence, int layer, int kv_head, double row, Address key,
                std::size_t key_count, Address value, std::size_t value_count) noexcept;

// ---- decoder_adapter.cpp ----------------------------------------------------------------------------------------------

// The configuration of a Llama-shaped checkpoint: what differs between them, and its layers' plan and window.
val llama_decoder_config(val parameters) noexcept;
// weights: { safetensors: [bytes, ...] } or { seed, ... }.
Decoder* make_decoder(val options, val weights) noexcept;
double decoder_parameters(const Decoder& decoder) noexcept;
double decoder_bytes(const Decoder& decoder) noexcept;
void decoder_prepare(Decoder& decoder, double count) noexcept;
val decoder_safetensors(const Decoder& decoder) noexcept;  // the bytes of a file
CacheObject* decoder_cache(const Decoder& decoder, val options) noexcept;
val last_token_indices(Address block) noexcept;
val valid_token_indices(Address block) noexcept;
void decoder_forward(Decoder& decoder, Address tokens, std::size_t count, Address block, Address wanted,
                     std::size_t wanted_count, Address out, std::size_t out_count, Address prefix, std::size_t prefixes,
                     Address visible, std::size_t visibles) noexcept;
void decoder_forward_cached(Decoder& decoder, CacheObject& cache, Address tokens, std::size_t count, Address block,
                            Address sequences, std::size_t sequence_count, Address wanted, std::size_t wanted_count,
                            Address out, std::size_t out_count, Address prefix, std::size_t prefixes, Address visible,
                            std::size_t visibles) noexcept;
// tokens: the prompts one after another; cache null: one of its own.
val decoder_generate(Decoder& decoder, CacheObject* cache, Address tokens, Address lengths, std::size_t rows,
                     val options) noexcept;
// Step by step. Decoder and cache must outlive them, which the facade sees to.
struct GenerationObject {
  std::unique_ptr<CacheObject> own;  // where none was given
  CacheObject* cache = nullptr;
  std::optional<Generation> generation;
};
GenerationObject* decoder_generation(Decoder& decoder, CacheObject* cache, Address tokens, Address lengths,
                                     std::size_t rows, val options) noexcept;
val generation_step(GenerationObject& object) noexcept;  // { phase, done, total, rows, tokens, ended }
void generation_cancel(GenerationObject& object) noexcept;
void generation_roll_back(GenerationObject& object) noexcept;
val generation_rows(const GenerationObject& object) noexcept;
struct PrefillObject {
  CacheObject* cache;
  Prefill prefill;
};
PrefillObject* decoder_prefill(Decoder& decoder, CacheObject& cache, Address tokens, Address lengths, std::size_t rows,
                               int chunk) noexcept;
val prefill_step(PrefillObject& object) noexcept;  // { phase, done, total, rows, tokens, ended }
void prefill_roll_back(PrefillObject& object) noexcept;
void prefill_logits(const PrefillObject& object, Address out, std::size_t count) noexcept;

// { token, tokens, shares }: the draw, and what it was made among.
val sample_token(Address logits, std::size_t count, val options) noexcept;

val decoder_lanes(Decoder& decoder, Address prompt, std::size_t count, val options) noexcept;
val decoder_audit(Decoder& decoder, val options) noexcept;
val decoder_describe(const Decoder& decoder) noexcept;

}  // namespace locant::wasm
