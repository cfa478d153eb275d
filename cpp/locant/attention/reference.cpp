// The plain definition of attention, in double, T x T and all. It shares no code with the kernel: rotation,
// softmax and masks are written out here again from the formulas in attention.hpp and mask.hpp.
#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "locant/attention/attention.hpp"

namespace locant {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows [first, first + count) of one head of a token-major tensor [tokens, heads, width].
Matrix head_rows(std::span<const float> x, std::size_t first, std::size_t count, std::int32_t heads,
                 std::int32_t head, std::int32_t width) {
  Matrix m(static_cast<Eigen::Index>(count), width);
  for (std::size_t t = 0; t < count; ++t) {
    for (std::int32_t c = 0; c < width; ++c) {
      const std::size_t token = (first + t) * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head);
      m(static_cast<Eigen::Index>(t), c) = x[token * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)];
    }
  }
  return m;
}

void rotate(Matrix& rows, const RotaryPlan& plan, const Positions& positions, std::size_t first, RotationRole role) {
  const Eigen::Index pairs = plan.pairs();
  for (Eigen::Index t = 0; t < rows.rows(); ++t) {
    for (Eigen::Index i = 0; i < pairs; ++i) {
      const auto pair = static_cast<std::size_t>(i);
      const int axis = plan.axis_of_pair.empty() ? 0 : plan.axis_of_pair[pair];
      const double p = positions.position(axis)[first + static_cast<std::size_t>(t)];
      const double offset = plan.axis_offsets.empty() ? 0 : plan.axis_offsets[static_cast<std::size_t>(axis)];
      double factor = plan.attention_factor;
      if (plan.xpos) {
        const double zeta = (2.0 * static_cast<double>(i) / plan.rotated_width() + plan.xpos->gamma) / (1 + plan.xpos->gamma);
        const double power = (p - plan.xpos->center) / plan.xpos->scale_base;
        factor *= std::pow(zeta, role == RotationRole::kQuery ? power : -power);
      }
      const double angle = (p + offset) * plan.inverse_frequencies[pair];
      const double c = std::cos(angle) * factor, s = std::sin(angle) * factor;
      const bool interleaved = plan.pairing == Pairing::kInterleaved;
      const Eigen::Index a = plan.start + (interleaved ? 2 * i : i);
      const Eigen::Index b = interleaved ? a + 1 : a + pairs;
      const double u = rows(t, a), v = rows(t, b);
      rows(t, a) = u * c - v * s;
      rows(t, b) = u * s + v * c;
    }
  }
}

}  // namespace

void reference_attend(const AttentionConfig& config, std::span<const float> q, const Positions& query_positions,
                      std::span<const float> k, std::span<const float> v, const Positions& key_positions,
                      std::span<float> out, const CallMask& call_mask) {
  constexpr const char* kCall = "reference_attend";
  const AttentionShape& shape = config.shape;
  require_shape(kCall, shape);
  if (query_positions.rows() != key_positions.rows()) {
    fail(ErrorCode::kArgument, kCall, ": the queries have ", query_positions.rows(), " rows, the keys ",
         key_positions.rows());
  }
  const auto size = [&](std::size_t tokens, std::int32_t heads, std::int32_t width) {
    return checked_product(kCall, "a tensor", {static_cast<std::int64_t>(tokens), heads, width});
  };
  require_size(kCall, "queries", q.size(), size(query_positions.tokens(), shape.heads, shape.head_dim), "tokens x heads x head_dim");
  require_size(kCall, "keys", k.size(), size(key_positions.tokens(), shape.kv_heads, shape.head_dim), "tokens x kv_heads x head_dim");
  require_size(kCall, "values", v.size(), size(key_positions.tokens(), shape.kv_heads, shape.value_dim), "tokens x kv_heads x value_dim");
  require_size(kCall, "out", out.size(), size(query_positions.tokens(), shape.heads, shape.value_dim), "tokens x heads x value_dim");

  const Mask mask = merged_mask(kCall, config.mask, call_mask, query_positions.rows());
  std::vector<std::size_t> query_counts, key_counts;
  for (std::int32_t r = 0; r < query_positions.rows(); ++r) {
    query_counts.push_back(query_positions.row_length(r));
    key_counts.push_back(key_positions.row_length(r));
  }
  const auto visible = split_visible(kCall, visible_of(config.mask, call_mask), query_counts, key_counts);
  const RotaryPlan* plan = config.rotation ? &config.rotation->plan() : nullptr;
  const double scale = config.scale.value_or(1 / std::sqrt(static_cast<double>(shape.head_dim))) *
                       (plan && !config.scale ? plan->softmax_scale_factor : 1);
  const double hidden = -std::numeric_limits<double>::infinity();

  for (std::int32_t r = 0; r < query_positions.rows(); ++r) {
    const std::size_t q0 = query_positions.row_begin(r), k0 = key_positions.row_begin(r);
    const std::size_t queries = query_counts[static_cast<std::size_t>(r)], keys = key_counts[static_cast<std::size_t>(r)];
    const Visibility sight(mask, r, view_of(query_positions, r), view_of(key_positions, r), visible[static_cast<std::size_t>(r)]);
    for (std::int32_t h = 0; h < shape.heads; ++h) {
      const std::int32_t g = h / (shape.heads / shape.kv_heads);
      Matrix query = head_rows(q, q0, queries, shape.heads, h, shape.head_dim);
      Matrix key = head_rows(k, k0, keys, shape.kv_heads, g, shape.head_dim);
      const Matrix value = head_rows(v, k0, keys, shape.kv_heads, g, shape.value_dim);
      if (plan) {
        rotate(query, *plan, query_positions, q0, RotationRole::kQuery);
        rotate(key, *plan, key_positions, k0, RotationRole::kKey);
      }
      for (std::size_t t = 0; t < queries; ++t) {
        const auto row = static_cast<Eigen::Index>(t);
        double row_scale = scale;
        if (config.temperature) {
          const double p = query_positions.position()[q0 + t];
          row_scale *= 1 + config.temperature->slope *
                               std::log(1 + std::floor((p + config.temperature->shift) / config.temperature->period));
        }
        ScoreTile tile;
        tile.head = h;
        tile.kv_head = g;
        tile.query_rows = 1;
        tile.keys = keys;
        tile.first_query = t;
        tile.query_position = query_positions.position().data() + q0 + t;
        tile.key_position = key_positions.position().data() + k0;
        tile.head_dim = shape.head_dim;
        tile.scale = static_cast<float>(row_scale);
        const Eigen::Matrix<float, 1, Eigen::Dynamic> query_row = query.row(row).cast<float>();
        const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> key_rows = key.cast<float>();
        tile.query = query_row.data();
        tile.query_stride = static_cast<std::size_t>(shape.head_dim);
        tile.key = key_rows.data();
        tile.key_stride = static_cast<std::size_t>(shape.head_dim);

        std::vector<float> terms(keys, 0.0f);
        for (const auto& term : config.score_terms) term->add(tile, terms.data(), keys);
        Eigen::VectorXd score(static_cast<Eigen::Index>(keys));
        double highest = hidden;
        for (std::size_t j = 0; j < keys; ++j) {
          double s = hidden;
          if (sight.sees(t, j)) {
            s = row_scale * query.row(row).dot(key.row(static_cast<Eigen::Index>(j)));
            if (config.soft_cap) s = *config.soft_cap * std::tanh(s / *config.soft_cap);
            s += terms[j];
          }
          score(static_cast<Eigen::Index>(j)) = s;
          highest = s > highest || std::isnan(s) ? s : highest;
        }
        const double sink = config.sink_logits.empty() ? hidden : static_cast<double>(config.sink_logits[static_cast<std::size_t>(h)]);
        if (sink > highest) highest = sink;
        Eigen::RowVectorXd mixture = Eigen::RowVectorXd::Zero(shape.value_dim);
        std::vector<float> weights(keys, 0.0f);
        double sum = highest == hidden ? 0 : std::exp(sink - highest);
        if (highest != hidden) {
          for (std::size_t j = 0; j < keys; ++j) {
            if (!sight.sees(t, j)) continue;
            const double weight = std::exp(score(static_cast<Eigen::Index>(j)) - highest);
            sum += weight;
            mixture += weight * value.row(static_cast<Eigen::Index>(j));
            score(static_cast<Eigen::Index>(j)) = weight;
          }
          mixture /= sum;
          for (std::size_t j = 0; j < keys; ++j) {
            if (sight.sees(t, j)) weights[j] = static_cast<float>(score(static_cast<Eigen::Index>(j)) / sum);
          }
        }
        float* y = out.data() + ((q0 + t) * static_cast<std::size_t>(shape.heads) + static_cast<std::size_t>(h)) *
                                    static_cast<std::size_t>(shape.value_dim);
        std::vector<float> extra(static_cast<std::size_t>(shape.value_dim), 0.0f);
        if (config.value_term && highest != hidden) {
          config.value_term->accumulate(tile, weights.data(), keys, extra.data(), extra.size());
        }
        for (std::int32_t c = 0; c < shape.value_dim; ++c) {
          y[c] = static_cast<float>(mixture(c)) + extra[static_cast<std::size_t>(c)];
        }
      }
    }
  }
}

}  // namespace locant
