// A second forward pass, independent of graphs: loops over doubles in the expanded form of the
// paper. Tests hold the graphs of model/deepseek2.h and this to each other, and both to the stored
// logits of an outside implementation.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/deepseek2.h"
#include "model/reference_dequant.h"

namespace smelt::test {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // rows

class ReferenceForward {
 public:
  ReferenceForward(const GgufFile& file, const Deepseek2Parameters& model) : file_(file), m_(model) {}

  // Logits after every one of `ids`.
  Matrix logits(const std::vector<int>& ids) {
    const Matrix& embedding = matrix("token_embd.weight");
    Matrix hidden;
    for (int id : ids) hidden.push_back(embedding[id]);
    for (int64_t layer = 0; layer < m_.common.layers; ++layer) {
      prefix_ = layer_prefix(layer);
      Matrix normed;
      for (const Vector& x : hidden) normed.push_back(norm(x, vector("attn_norm.weight")));
      const Matrix attended = attention(normed);
      for (size_t t = 0; t < ids.size(); ++t) {
        Vector h = sum(hidden[t], attended[t]);
        const Vector x = norm(h, vector("ffn_norm.weight"));
        hidden[t] = sum(h, layer >= m_.dense_layers ? experts(x) : network(x, ".weight"));
      }
    }
    prefix_ = "";
    Matrix result;
    for (const Vector& x : hidden)
      result.push_back(times(matrix(m_.common.tied_output ? "token_embd.weight" : "output.weight"),
                             norm(x, vector("output_norm.weight"))));
    return result;
  }

 private:
  // --- weights, dequantised when first used

  const Matrix& matrix(const std::string& name) {
    auto [it, is_new] = weights_.try_emplace(prefix_ + name);
    if (is_new) it->second = read(*file_.find(prefix_ + name));
    return it->second;
  }
  const Vector& vector(const std::string& name) { return matrix(name)[0]; }

  static Matrix read(const GgufTensor& tensor) {
    const GgufTypeInfo& info = info_of(tensor.type);
    const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.data);
    Matrix result(tensor.rows());
    for (Vector& row : result)
      for (uint64_t block = 0; block < tensor.dims[0] / info.elements; ++block, bytes += info.bytes)
        for (uint32_t i = 0; i < info.elements; ++i) row.push_back(ReferenceBlock(bytes).value(tensor.type, i));
    return result;
  }

  // --- small pieces

  static double dot(const Vector& x, const Vector& y) {
    double s = 0;
    for (size_t i = 0; i < x.size(); ++i) s += x[i] * y[i];
    return s;
  }
  // Rows begin .. begin + count of w, times x.
  static Vector times(const Matrix& w, const Vector& x, size_t begin = 0, size_t count = SIZE_MAX) {
    Vector y;
    for (size_t row = begin; row < std::min(w.size(), begin + std::min(count, w.size())); ++row)
      y.push_back(dot(w[row], x));
    return y;
  }
  static Vector sum(Vector x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    return x;
  }
  Vector norm(const Vector& x, const Vector& w) const {
    const double scale = 1 / std::sqrt(dot(x, x) / double(x.size()) + m_.common.epsilon);
    Vector y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * w[i]);
    return y;
  }
  static Vector part(const Vector& x, size_t begin, size_t size) {
    return {x.begin() + begin, x.begin() + begin + size};
  }

  Vector rotate(Vector x, int64_t position) {
    if (cos_.empty()) {
      const auto tables = rope_tables(m_.attention.rope);
      cos_ = tables[0].rows(512), sin_ = tables[1].rows(512);
    }
    for (int64_t i = 0; i < m_.attention.rope.width / 2; ++i) {
      const double c = cos_[position * m_.attention.rope.width / 2 + i],
                   s = sin_[position * m_.attention.rope.width / 2 + i];
      const double a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = a * c - b * s;
      x[2 * i + 1] = b * c + a * s;
    }
    return x;
  }
  static void softmax(Vector& x) {
    const double top = *std::max_element(x.begin(), x.end());
    double total = 0;
    for (double& v : x) total += v = std::exp(v - top);
    for (double& v : x) v /= total;
  }

  // --- the layer

  Vector query(const Vector& x) {
    if (!m_.attention.q_lora) return times(matrix("attn_q.weight"), x);
    return times(matrix("attn_q_b.weight"), norm(times(matrix("attn_q_a.weight"), x), vector("attn_q_a_norm.weight")));
  }

  // The key of one head without its rotated part: k_b has one row per latent.
  Vector head_key(int64_t head, const Vector& latent) {
    if (m_.attention.fused_kv_b)
      return times(matrix("attn_kv_b.weight"), latent, head * (m_.attention.nope + m_.attention.v_head),
                   m_.attention.nope);
    const Matrix& w = matrix("attn_k_b.weight");
    Vector k(m_.attention.nope);
    for (int64_t l = 0; l < m_.attention.kv_lora; ++l)
      for (int64_t i = 0; i < m_.attention.nope; ++i) k[i] += w[head * m_.attention.kv_lora + l][i] * latent[l];
    return k;
  }
  Vector head_value(int64_t head, const Vector& latent) {
    if (m_.attention.fused_kv_b)
      return times(matrix("attn_kv_b.weight"), latent,
                   head * (m_.attention.nope + m_.attention.v_head) + m_.attention.nope, m_.attention.v_head);
    return times(matrix("attn_v_b.weight"), latent, head * m_.attention.v_head, m_.attention.v_head);
  }

  Matrix attention(const Matrix& x) {
    Matrix latents, rotated, result;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vector row = times(matrix("attn_kv_a_mqa.weight"), x[t]);
      latents.push_back(norm(part(row, 0, m_.attention.kv_lora), vector("attn_kv_a_norm.weight")));
      rotated.push_back(rotate(part(row, m_.attention.kv_lora, m_.attention.rope.width), t));
    }
    std::vector<Vector> queries;
    for (const Vector& v : x) queries.push_back(query(v));
    Matrix heads(x.size());
    for (int64_t head = 0; head < m_.attention.heads; ++head) {
      Matrix keys, values;
      for (const Vector& latent : latents)
        keys.push_back(head_key(head, latent)), values.push_back(head_value(head, latent));
      for (size_t t = 0; t < x.size(); ++t) {
        const Vector q = part(queries[t], head * (m_.attention.nope + m_.attention.rope.width),
                              m_.attention.nope + m_.attention.rope.width);
        const Vector q_rope = rotate(part(q, m_.attention.nope, m_.attention.rope.width), t);
        Vector p;
        for (size_t s = 0; s <= t; ++s)
          p.push_back((dot(part(q, 0, m_.attention.nope), keys[s]) + dot(q_rope, rotated[s])) *
                      m_.attention.softmax_scale);
        softmax(p);
        Vector out(m_.attention.v_head);
        for (size_t s = 0; s <= t; ++s)
          for (int64_t i = 0; i < m_.attention.v_head; ++i) out[i] += p[s] * values[s][i];
        heads[t].insert(heads[t].end(), out.begin(), out.end());
      }
    }
    for (const Vector& row : heads) result.push_back(times(matrix("attn_output.weight"), row));
    return result;
  }

  // Rows of the 3-d expert tensors start at expert * rows of one.
  Vector network(const Vector& x, const std::string& suffix, int64_t expert = 0, int64_t width = -1) {
    const Matrix &gate = matrix("ffn_gate" + suffix), &up = matrix("ffn_up" + suffix),
                 &down = matrix("ffn_down" + suffix);
    if (width < 0) width = gate.size();
    const Vector g = times(gate, x, expert * width, width), u = times(up, x, expert * width, width);
    Vector inner;
    for (int64_t i = 0; i < width; ++i) inner.push_back(g[i] / (1 + std::exp(-g[i])) * u[i]);
    return times(down, inner, expert * m_.common.hidden, m_.common.hidden);
  }

  // Of experts sorted by score, only those of the groups with the best sum of two stay.
  void keep_best_groups(std::vector<int64_t>& order, const Vector& score) const {
    const int64_t size = m_.experts.count / m_.experts.groups;
    std::vector<std::pair<double, int64_t>> groups;
    for (int64_t g = 0; g < m_.experts.groups; ++g) {
      Vector of_group = part(score, g * size, size);
      std::sort(of_group.rbegin(), of_group.rend());
      groups.push_back({-(of_group[0] + of_group[1]), g});
    }
    std::sort(groups.begin(), groups.end());
    groups.resize(m_.experts.groups_used);
    std::erase_if(order, [&](int64_t e) {
      return std::none_of(groups.begin(), groups.end(), [&](const auto& g) { return g.second == e / size; });
    });
  }

  Vector experts(const Vector& x) {
    Vector score = times(matrix("ffn_gate_inp.weight"), x);
    if (m_.experts.routing == Routing::Softmax)
      softmax(score);
    else
      for (double& v : score) v = 1 / (1 + std::exp(-v));
    const Vector choice = m_.experts.selection_bias ? sum(score, vector("exp_probs_b.bias")) : score;
    std::vector<int64_t> order(m_.experts.count);
    for (int64_t e = 0; e < m_.experts.count; ++e) order[e] = e;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return choice[a] > choice[b]; });
    if (m_.experts.groups > 1) keep_best_groups(order, choice);
    order.resize(m_.experts.used);
    double total = 1e-20;
    for (int64_t e : order) total += score[e];
    Vector out(m_.common.hidden);
    for (int64_t e : order) {
      const double w = m_.experts.weights_scale * (m_.experts.normalise_weights ? score[e] / total : score[e]);
      const Vector y = network(x, "_exps.weight", e, m_.experts.width);
      for (int64_t i = 0; i < m_.common.hidden; ++i) out[i] += w * y[i];
    }
    return m_.experts.shared_width ? sum(out, network(x, "_shexp.weight")) : out;
  }

  const GgufFile& file_;
  const Deepseek2Parameters& m_;
  std::string prefix_;
  std::map<std::string, Matrix> weights_;
  std::vector<float> cos_, sin_;
};

}  // namespace smelt::test
