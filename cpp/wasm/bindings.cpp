// The names of the module, and nothing else.
#include <emscripten/bind.h>

#include "adapters.hpp"

EMSCRIPTEN_BINDINGS(locant) {
  using namespace emscripten;
  using namespace locant::wasm;
  using locant::Decoder;
  using locant::DecoupledRotation;
  using locant::GridSinusoidal;
  using locant::LearnedTable;
  using locant::Rotation;
  using locant::Sinusoidal;

  function("allocate", &allocate);
  function("release", &release);
  function("faultFlag", &fault_flag);
  function("takeFault", &take_fault);
  function("buildInfo", &build_info);
  function("random", &random_numbers);

  function("positionsRange", &positions_range);
  function("positionsRagged", &positions_ragged);
  function("positionsPadded", &positions_padded);
  function("positionsFromPaddingMask", &positions_from_padding_mask);
  function("positionsPacked", &positions_packed);
  function("positionsFrom", &positions_from);
  function("positionsFromCuSeqlens", &positions_from_cu_seqlens);
  function("positionsFromSegmentIds", &positions_from_segment_ids);
  function("positionsGrid", &positions_grid);
  function("positionsMultimodal", &positions_multimodal);
  function("positionsCuSeqlens", &positions_cu_seqlens);
  function("positionsRow", &positions_row);
  function("positionsSlice", &positions_slice);
  function("positionsNext", &positions_next);
  function("positionsDelta", &positions_delta);
  function("interpretPositions", &interpret_positions);
  function("runsOfTokens", &runs_of_token_kinds);
  function("positionsForget", &forget_reply);

  function("makeSinusoidal", &make_sinusoidal, allow_raw_pointers());
  class_<Sinusoidal>("Sinusoidal")
      .function("frequencies", &sinusoidal_frequencies)
      .function("prepare", &sinusoidal_prepare)
      .function("encode", &sinusoidal_encode)
      .function("add", &sinusoidal_add)
      .function("describe", &sinusoidal_describe);

  function("makeGridSinusoidal", &make_grid_sinusoidal, allow_raw_pointers());
  class_<GridSinusoidal>("GridSinusoidal")
      .function("frequencies", &grid_sinusoidal_frequencies)
      .function("encode", &grid_sinusoidal_encode)
      .function("add", &grid_sinusoidal_add)
      .function("describe", &grid_sinusoidal_describe);

  function("makeLearnedTable", &make_learned_table, allow_raw_pointers());
  class_<LearnedTable>("LearnedTable")
      .function("rows", &learned_table_rows)
      .function("fit", &learned_table_fit)
      .function("rowsOf", &learned_table_rows_of)
      .function("requireLength", &learned_table_require_length)
      .function("encode", &learned_table_encode)
      .function("add", &learned_table_add)
      .function("values", &learned_table_values)
      .function("count", &learned_table_count)
      .function("describe", &learned_table_describe);

  function("detrSinusoids", &detr_sinusoids);
  function("describeDetr", &describe_detr);
  function("interpolateRows", &interpolated_rows);
  function("interpolateGrid", &interpolated_grid);
  function("describeInterpolation", &describe_interpolated_grid);

  function("rotaryPlan", &rotary_plan);
  function("axialPlan", &axial_rotary_plan);
  function("pixelPlan", &pixel_rotary_plan);
  function("convertPairing", &convert_pairing);
  function("describePlan", &describe_plan);
  function("scaleAxes", &scale_plan_axes);
  function("planDifference", &plan_difference);
  function("layerPlans", &layer_plans);
  function("comparePairings", &pairing_residuals);
  function("makeRotation", &make_rotation, allow_raw_pointers());
  class_<Rotation>("Rotation")
      .function("prepare", &rotation_prepare)
      .function("apply", &rotation_apply)
      .function("reach", &rotation_reach)
      .function("advance", &rotation_advance);
  function("makeDecoupledRotation", &make_decoupled_rotation, allow_raw_pointers());
  class_<DecoupledRotation>("DecoupledRotation")
      .function("prepare", &decoupled_rotation_prepare)
      .function("describe", &decoupled_rotation_describe)
      .function("applyQuery", &decoupled_rotation_apply_query)
      .function("joinKey", &decoupled_rotation_join_key);

  function("makeTerms", &make_terms, allow_raw_pointers());
  class_<Terms>("Terms")
      .function("describe", &terms_describe)
      .function("needsContent", &terms_needs_content)
      .function("shiftInvariant", &terms_shift_invariant)
      .function("runs", &terms_runs)
      .function("bias", &terms_bias);
  function("cope", &cope_forward);
  function("describeCope", &describe_cope);
  function("relativeShift", &shifted);

  function("makeAttention", &make_attention, allow_raw_pointers());
  class_<AttentionObject>("Attention")
      .function("prepare", &attention_prepare)
      .function("describe", &attention_describe)
      .function("attend", &attention_attend)
      .function("attendCached", &attention_attend_cached)
      .function("explain", &attention_explain);

  function("makeCache", &make_cache, allow_raw_pointers());
  class_<CacheObject>("Cache")
      .function("rows", &cache_rows)
      .function("capacity", &cache_capacity)
      .function("bytes", &cache_bytes)
      .function("positions", &cache_positions)
      .function("next", &cache_next)
      .function("begin", &cache_begin)
      .function("cancel", &cache_cancel)
      .function("truncate", &cache_truncate)
      .function("evict", &cache_evict)
      .function("keepWindow", &cache_keep_window)
      .function("clear", &cache_clear)
      .function("fork", &cache_fork)
      .function("shift", &cache_shift)
      .function("divide", &cache_divide)
      .function("read", &cache_read);

  function("lastTokens", &last_token_indices);
  function("validTokens", &valid_token_indices);
  function("sample", &sample_token);
  function("llamaConfig", &llama_decoder_config);
  function("makeDecoder", &make_decoder, allow_raw_pointers());
  class_<Decoder>("Decoder")
      .function("parameters", &decoder_parameters)
      .function("bytes", &decoder_bytes)
      .function("prepare", &decoder_prepare)
      .function("safetensors", &decoder_safetensors)
      .function("cache", &decoder_cache, allow_raw_pointers())
      .function("forward", &decoder_forward)
      .function("forwardCached", &decoder_forward_cached)
      .function("generate", &decoder_generate, allow_raw_pointers())
      .function("generation", &decoder_generation, allow_raw_pointers())
      .function("prefill", &decoder_prefill, allow_raw_pointers())
      .function("lanes", &decoder_lanes)
      .function("audit", &decoder_audit)
      .function("describe", &decoder_describe);
  class_<GenerationObject>("Generation")
      .function("step", &generation_step)
      .function("cancel", &generation_cancel)
      .function("rollBack", &generation_roll_back)
      .function("rows", &generation_rows);
  class_<PrefillObject>("Prefill")
      .function("step", &prefill_step)
      .function("rollBack", &prefill_roll_back)
      .function("logits", &prefill_logits);
}
