// A small transformer of random floats: as a file, and as a direct forward pass over doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "graph/scalar_math.h"
#include "support/gguf_writer.h"

namespace smelt::test {

inline constexpr int kHidden = 32, kLayers = 2, kHeads = 4, kKvHeads = 2, kWidth = 16, kInner = 48, kVocabulary = 40;
inline constexpr double kEpsilon = 1e-5, kBase = 500, kLocalBase = 100;
// Granite's, and that of Ministral's queries, which grow every so many positions.
inline constexpr double kEmbeddingScale = 3, kAttentionScale = 0.2, kResidualScale = 0.7, kLogitScale = 2.5;
inline constexpr double kTemperature = 0.3;
inline constexpr size_t kTemperatureSpan = 3;
inline constexpr size_t kWindow = 3;  // where the architecture has windows
inline constexpr int kExperts = 6, kUsed = 2;
inline constexpr double kRoutedScale = 1.5;  // GLM's
inline constexpr int kNetKeys = 2, kNetValues = 4, kNetWidth = 8,
                     kTaps = 4;  // of delta nets

using Vector = std::vector<double>;

// What architectures differ in.
struct Traits {
  std::string architecture = "llama";
  bool has_bias = false, has_norms = false, has_divisors = false;
  int rotated = kWidth;  // values of a head
  std::string network_norm = "ffn_norm";
  bool has_experts = false;
  bool has_local_layers = false;  // of OLMo
  bool rotates = true;            // Granite may not
  bool has_joint_input = false;   // of older files of Qwen 3 Next

  bool halves() const { return architecture != "llama" && architecture != "glm4" && !is_granite() && !is_ministral(); }
  bool has_post_norms() const { return is_gemma() || is_olmo() || architecture == "glm4"; }
  bool is_granite() const { return architecture == "granite" || architecture == "granitemoe"; }
  bool is_ministral() const { return architecture == "mistral3"; }
  bool is_olmo() const { return architecture == "olmo2"; }  // norms of all heads together, and none before the parts
  bool has_one_gate_and_up() const { return is_phi() || architecture == "glm4"; }
  bool is_phi() const { return architecture == "phi3"; }
  std::string divisors() const { return is_phi() ? "rope_factors_short.weight" : "rope_freqs.weight"; }
  double magnitude() const { return is_phi() ? 1.25 : 1; }  // of cos and sin
  bool is_gemma() const { return architecture == "gemma3"; }
  bool is_gpt_oss() const { return architecture == "gpt-oss"; }
  // And gates in the other layer.
  bool has_delta_net() const { return architecture.starts_with("qwen35") || is_grouped(); }
  bool is_grouped() const { return architecture == "qwen3next"; }  // value heads of a key head are neighbours
  bool is_glm_moe() const { return architecture == "glm4moe"; }
  bool has_shared_gate() const { return has_delta_net(); }
  bool has_shared_expert() const { return has_experts && (has_shared_gate() || is_glm_moe()); }
  bool has_own_expert_width() const { return is_gpt_oss() || is_glm_moe() || architecture.starts_with("qwen"); }
  bool has_windows() const { return is_gemma() || is_gpt_oss() || is_phi() || has_local_layers; }
};

// What models of one architecture differ in.
struct Sizes {
  int hidden = kHidden, layers = kLayers, heads = kHeads, kv_heads = kKvHeads, width = kWidth, inner = kInner;
  int vocabulary = kVocabulary;
  double epsilon = kEpsilon, base = kBase, local_base = kLocalBase;
  size_t window = kWindow;
  int period = 2;  // of so many layers the last one sees all positions, or is no delta net
  int experts = kExperts, used = kUsed;
  int net_keys = kNetKeys, net_values = kNetValues, net_width = kNetWidth, taps = kTaps;

  GgufType type = GgufType::F32;  // of matrices whose rows are whole blocks; or Q8_0

  int mixed() const { return (2 * net_keys + net_values) * net_width; }
  int values_per_key() const { return net_values / net_keys; }
};

class SmallTransformer {
 public:
  explicit SmallTransformer(const Traits& traits, const Sizes& sizes = {}) : traits_(traits), s_(sizes) {
    const std::string& a = traits.architecture;
    writer.string("general.architecture", a).u32(a + ".block_count", s_.layers).u32(a + ".context_length", 512);
    writer.u32(a + ".embedding_length", s_.hidden).u32(a + ".feed_forward_length", s_.inner);
    writer.u32(a + ".attention.head_count", s_.heads).u32(a + ".attention.head_count_kv", s_.kv_heads);
    writer.u32(a + ".attention.key_length", s_.width).u32(a + ".attention.value_length", s_.width);
    writer.u32(a + ".rope.dimension_count", traits.rotated);
    if (traits.has_windows()) writer.u32(a + ".attention.sliding_window", s_.window);
    if (traits.has_delta_net()) {
      writer.u32(a + ".full_attention_interval", s_.period).u32(a + ".ssm.conv_kernel", s_.taps);
      writer.u32(a + ".ssm.group_count", s_.net_keys).u32(a + ".ssm.time_step_rank", s_.net_values);
      writer.u32(a + ".ssm.state_size", s_.net_width).u32(a + ".ssm.inner_size", s_.net_values * s_.net_width);
    }
    if (traits.is_gemma()) {
      writer.f32(a + ".rope.freq_base_swa", float(s_.local_base));
    }
    if (traits.has_windows() && !traits.is_phi()) writer.u32(a + ".attention.sliding_window_pattern", s_.period);
    if (traits.is_granite()) {
      writer.f32(a + ".embedding_scale", kEmbeddingScale).f32(a + ".attention.scale", kAttentionScale);
      writer.f32(a + ".residual_scale", kResidualScale).f32(a + ".logit_scale", kLogitScale);
      writer.boolean(a + ".rope.scaling.finetuned", traits.rotates);
    }
    if (traits.is_ministral()) {
      writer.f32(a + ".attention.temperature_scale", kTemperature);
      writer.u32(a + ".rope.scaling.original_context_length", kTemperatureSpan);
    }
    if (traits.has_experts) writer.u32(a + ".expert_count", s_.experts).u32(a + ".expert_used_count", s_.used);
    if (traits.has_experts && traits.has_own_expert_width()) writer.u32(a + ".expert_feed_forward_length", s_.inner);
    if (traits.is_glm_moe()) writer.u32(a + ".leading_dense_block_count", traits.has_experts ? 1 : s_.layers);
    if (traits.is_glm_moe() && traits.has_experts)
      writer.u32(a + ".expert_shared_count", 1).f32(a + ".expert_weights_scale", float(kRoutedScale));
    writer.f32(a + ".attention.layer_norm_rms_epsilon", float(s_.epsilon)).f32(a + ".rope.freq_base", float(s_.base));
    add("token_embd.weight", s_.vocabulary, s_.hidden, 1);
    if (traits.is_phi()) writer.f32(a + ".rope.scaling.attn_factor", float(traits.magnitude()));
    if (traits.has_divisors) add_vector(traits.divisors(), s_.width / 2, 3, 0.5);
    if (traits.has_divisors && traits.is_phi()) add_vector("rope_factors_long.weight", s_.width / 2, 30, 0.5);
    for (int layer = 0; layer < s_.layers; ++layer) {
      const std::string b = "blk." + std::to_string(layer) + ".";
      if (!traits.is_olmo()) add_vector(b + "attn_norm.weight", s_.hidden, 1, 0.2);
      if (is_delta_net(layer)) {
        add_delta_net(b);
      } else {
        add(b + "attn_q.weight", s_.heads * s_.width * (traits.has_delta_net() ? 2 : 1), s_.hidden, 2);
        add(b + "attn_k.weight", s_.kv_heads * s_.width, s_.hidden, 2);
        add(b + "attn_v.weight", s_.kv_heads * s_.width, s_.hidden, 1);
        add(b + "attn_output.weight", s_.hidden, s_.heads * s_.width, 1);
      }
      if (traits.has_norms && !is_delta_net(layer)) {
        add_vector(b + "attn_q_norm.weight", s_.width * (traits.is_olmo() ? s_.heads : 1), 1, 0.3);
        add_vector(b + "attn_k_norm.weight", s_.width * (traits.is_olmo() ? s_.kv_heads : 1), 1, 0.3);
      }
      if (traits.has_bias) {
        add_vector(b + "attn_q.bias", s_.heads * s_.width, 0, 0.5);
        add_vector(b + "attn_k.bias", s_.kv_heads * s_.width, 0, 0.5);
        add_vector(b + "attn_v.bias", s_.kv_heads * s_.width, 0, 0.5);
      }
      if (traits.is_gpt_oss()) {
        add_vector(b + "attn_output.bias", s_.hidden, 0, 0.5);
        add_vector(b + "attn_sinks.weight", s_.heads, 1, 1);
      }
      if (!traits.is_olmo()) add_vector(b + traits.network_norm + ".weight", s_.hidden, 1, 0.2);
      if (traits.has_post_norms()) {
        add_vector(b + "post_attention_norm.weight", s_.hidden, 1, 0.2);
        add_vector(b + "post_ffw_norm.weight", s_.hidden, 1, 0.2);
      }
      if (has_experts(layer)) {
        add_experts(b);
        continue;
      }
      add(b + "ffn_gate.weight", s_.inner, s_.hidden, 1);
      add(b + "ffn_up.weight", s_.inner, s_.hidden, 1);
      add(b + "ffn_down.weight", s_.hidden, s_.inner, 1);
      if (traits.is_phi()) join(b + "attn_qkv.weight", {b + "attn_q.weight", b + "attn_k.weight", b + "attn_v.weight"});
      if (traits.has_one_gate_and_up()) join(b + "ffn_up.weight", {b + "ffn_gate.weight", b + "ffn_up.weight"});
    }
    add_vector("output_norm.weight", s_.hidden, 1, 0.2);
    add("output.weight", s_.vocabulary, s_.hidden, 2);
  }

  // Logits after every one of `ids`.
  std::vector<Vector> logits(const std::vector<int>& ids) const {
    std::vector<Vector> x, out;
    for (int id : ids) {
      x.push_back(row("token_embd.weight", id, s_.hidden));
      for (double& v : x.back()) v *= embedding_scale();
    }
    for (int layer = 0; layer < s_.layers; ++layer) {
      const std::string b = "blk." + std::to_string(layer) + ".";
      const std::vector<Vector> attended = is_delta_net(layer) ? delta_net(b, x) : attention(layer, x);
      for (size_t t = 0; t < x.size(); ++t) {
        add_to(x[t], after(attended[t], b + "post_attention_norm.weight"));
        const Vector in = before(x[t], b + traits_.network_norm + ".weight");
        add_to(x[t], after(has_experts(layer) ? routed(b, in) : network(b, in, ""), b + "post_ffw_norm.weight"));
      }
    }
    for (const Vector& v : x) {
      out.push_back(times("output", norm(v, "output_norm.weight")));
      if (traits_.is_granite())
        for (double& logit : out.back()) logit /= kLogitScale;
    }
    return out;
  }

  // What the first matrices are multiplied with for a token.
  Vector first_input(int id) const { return before(row("token_embd.weight", id, s_.hidden), "blk.0.attn_norm.weight"); }

  GgufWriter writer;

 private:
  static void add_to(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  Vector row(const std::string& name, size_t at, size_t width) const {
    const Vector& all = values_.at(name);
    return {all.begin() + at * width, all.begin() + (at + 1) * width};
  }
  Vector times(const std::string& name, const Vector& x) const {
    const Vector& w = values_.at(name + ".weight");
    const auto bias = values_.find(name + ".bias");
    Vector y(w.size() / x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t k = 0; k < x.size(); ++k) y[i] += w[i * x.size() + k] * x[k];
      if (bias != values_.end()) y[i] += bias->second[i];
    }
    return y;
  }
  bool has_experts(int layer) const { return traits_.has_experts && !(traits_.is_glm_moe() && layer == 0); }
  Vector network(const std::string& b, const Vector& in, const std::string& suffix) const {
    Vector gate = times(b + "ffn_gate" + suffix, in);
    const Vector up = times(b + "ffn_up" + suffix, in);
    for (int i = 0; i < s_.inner; ++i) gate[i] = activation(gate[i]) * up[i];
    return times(b + "ffn_down" + suffix, gate);
  }
  // The best experts' share of their scores: exponentials of the logits, or GLM's sigmoids, to which a bias is added
  // for the choice.
  Vector routed(const std::string& b, const Vector& in) const {
    const Vector logits = times(b + "ffn_gate_inp", in);
    Vector score = logits;
    for (double& v : score) v = traits_.is_glm_moe() ? sigmoid(v) : std::exp(v);
    Vector choice = score;
    if (traits_.is_glm_moe()) add_to(choice, values_.at(b + "exp_probs_b.bias"));
    std::vector<int> order(s_.experts);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int i, int k) { return choice[i] > choice[k]; });
    double total = 0;
    for (int i = 0; i < s_.used; ++i) total += score[order[i]];
    const double scale = traits_.is_glm_moe() ? kRoutedScale : 1;
    Vector out = shared(b, in);
    for (int i = 0; i < s_.used; ++i) {
      const int e = order[i];
      Vector inner = of_expert(b + "ffn_gate", e, in);
      const Vector up = of_expert(b + "ffn_up", e, in);
      for (int k = 0; k < s_.inner; ++k)
        inner[k] = traits_.is_gpt_oss() ? clamped(inner[k], up[k]) : activation(inner[k]) * up[k];
      const Vector down = of_expert(b + "ffn_down", e, inner);
      for (int k = 0; k < s_.hidden; ++k) out[k] += scale * score[e] / total * down[k];
    }
    return out;
  }
  Vector shared(const std::string& b, const Vector& in) const {
    if (!traits_.has_shared_expert()) return Vector(s_.hidden);
    Vector out = network(b, in, "_shexp");
    if (!traits_.has_shared_gate()) return out;
    const double gate = sigmoid(times(b + "ffn_gate_inp_shexp", in)[0]);
    for (double& v : out) v *= gate;
    return out;
  }
  static double clamped(double gate, double up) {
    const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
    return g / (1 + std::exp(-1.702 * g)) * (u + 1);
  }
  Vector of_expert(const std::string& name, int expert, const Vector& x) const {
    const Vector& w = values_.at(name + "_exps.weight");
    const auto bias = values_.find(name + "_exps.bias");
    Vector y(w.size() / s_.experts / x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = expert * y.size() + i;
      for (size_t k = 0; k < x.size(); ++k) y[i] += w[row * x.size() + k] * x[k];
      if (bias != values_.end()) y[i] += bias->second[row];
    }
    return y;
  }
  Vector norm(Vector x, const std::string& name) const {
    double squares = 0;
    for (double v : x) squares += v * v;
    const Vector& w = values_.at(name);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= w[i] / std::sqrt(squares / double(x.size()) + s_.epsilon);
    return x;
  }
  double embedding_scale() const {
    return traits_.is_gemma() ? std::sqrt(double(s_.hidden)) : traits_.is_granite() ? kEmbeddingScale : 1;
  }
  Vector before(const Vector& x, const std::string& name) const { return traits_.is_olmo() ? x : norm(x, name); }
  Vector after(const Vector& part, const std::string& name) const {
    Vector y = traits_.has_post_norms() ? norm(part, name) : part;
    if (traits_.is_granite())
      for (double& v : y) v *= kResidualScale;
    return y;
  }
  double activation(double x) const {
    if (!traits_.is_gemma()) return x / (1 + std::exp(-x));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  bool is_between(int layer) const { return (layer + 1) % s_.period != 0; }
  bool is_local(int layer) const { return traits_.has_windows() && (is_between(layer) || traits_.is_phi()); }
  void rotate(double* x, size_t position, double base) const {
    if (!traits_.rotates) return;
    for (int i = 0; i < traits_.rotated / 2; ++i) {
      double angle = double(position) * std::pow(base, -2.0 * i / traits_.rotated);
      if (values_.contains(traits_.divisors())) angle /= values_.at(traits_.divisors())[i];
      double& first = x[traits_.halves() ? i : 2 * i];
      double& second = x[traits_.halves() ? i + traits_.rotated / 2 : 2 * i + 1];
      const double a = first * traits_.magnitude(), b = second * traits_.magnitude();
      first = a * std::cos(angle) - b * std::sin(angle);
      second = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  // The head's norm, then its rotation.
  void place(Vector& x, int head, const std::string& norm_name, size_t position, double base) const {
    double* at = &x[head * s_.width];
    if (traits_.has_norms && !traits_.is_olmo()) {
      const Vector normed = norm(Vector(at, at + s_.width), norm_name);
      std::copy(normed.begin(), normed.end(), at);
    }
    rotate(at, position, base);
  }
  bool is_delta_net(int layer) const { return traits_.has_delta_net() && is_between(layer); }

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  // The convolution of the last rows and its activation.
  Vector convolved(const std::string& b, const std::vector<Vector>& mixed) const {
    const Vector& taps = values_.at(b + "ssm_conv1d.weight");
    Vector out(s_.mixed());
    for (int c = 0; c < s_.mixed(); ++c) {
      for (int tap = 0; tap < s_.taps; ++tap)
        if (const int at = int(mixed.size()) - s_.taps + tap; at >= 0) out[c] += taps[c * s_.taps + tap] * mixed[at][c];
      out[c] *= sigmoid(out[c]);
    }
    return out;
  }

  // A head of length 1.
  Vector unit(const Vector& all, int head) const {
    Vector x(all.begin() + head * s_.net_width, all.begin() + (head + 1) * s_.net_width);
    double squares = 1e-6;
    for (double v : x) squares += v * v;
    for (double& v : x) v /= std::sqrt(squares);
    return x;
  }

  // One head takes one token: its matrix becomes another one, and gives a row.
  Vector next_row(std::vector<Vector>& matrix, const Vector& q, const Vector& k, const double* v, double decay,
                  double beta) const {
    Vector out(s_.net_width);
    for (int c = 0; c < s_.net_width; ++c) {
      double known = 0;
      for (int r = 0; r < s_.net_width; ++r) known += (matrix[r][c] *= decay) * k[r];
      for (int r = 0; r < s_.net_width; ++r) matrix[r][c] += k[r] * beta * (v[c] - known);
      for (int r = 0; r < s_.net_width; ++r) out[c] += matrix[r][c] * q[r] / std::sqrt(double(s_.net_width));
    }
    return out;
  }

  std::vector<Vector> delta_net(const std::string& b, const std::vector<Vector>& x) const {
    std::vector<std::vector<Vector>> matrices(s_.net_values, std::vector<Vector>(s_.net_width, Vector(s_.net_width)));
    std::vector<Vector> mixed, out;
    for (const Vector& token : x) {
      const Vector in = norm(token, b + "attn_norm.weight");
      mixed.push_back(times(b + "attn_qkv", in));
      const Vector all = convolved(b, mixed), gate = times(b + "attn_gate", in);
      const Vector rate = times(b + "ssm_alpha", in), beta = times(b + "ssm_beta", in);
      const auto key_of = [&](int head) {
        return traits_.is_grouped() ? head / s_.values_per_key() : head % s_.net_keys;
      };
      Vector heads;
      for (int head = 0; head < s_.net_values; ++head) {
        const double dt = std::log1p(std::exp(rate[head] + values_.at(b + "ssm_dt.bias")[head]));
        const double decay = std::exp(values_.at(b + "ssm_a")[head] * dt);
        const Vector row = next_row(matrices[head], unit(all, key_of(head)), unit(all, s_.net_keys + key_of(head)),
                                    &all[(2 * s_.net_keys + head) * s_.net_width], decay, sigmoid(beta[head]));
        for (double v : norm(row, b + "ssm_norm.weight")) heads.push_back(v);
      }
      for (size_t i = 0; i < heads.size(); ++i) heads[i] *= gate[i] * sigmoid(gate[i]);
      out.push_back(times(b + "ssm_out", heads));
    }
    return out;
  }

  // Of a head's row of attn_q the second half is its gate.
  Vector take_gates(Vector& queries) const {
    Vector gates, plain;
    for (size_t i = 0; i < queries.size(); ++i)
      (traits_.has_delta_net() && i / s_.width % 2 ? gates : plain).push_back(queries[i]);
    queries = plain;
    return gates;
  }

  double score_scale(size_t position) const {
    if (traits_.is_granite()) return kAttentionScale;
    const double usual = 1 / std::sqrt(double(s_.width));
    if (!traits_.is_ministral()) return usual;
    return usual * (1 + kTemperature * std::log(1 + std::floor(double(position / kTemperatureSpan))));
  }

  std::vector<Vector> attention(int layer, const std::vector<Vector>& x) const {
    const std::string b = "blk." + std::to_string(layer) + ".";
    const double base = is_local(layer) && traits_.is_gemma() ? s_.local_base : s_.base;
    std::vector<Vector> queries, keys, values, out;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vector in = before(x[t], b + "attn_norm.weight");
      queries.push_back(times(b + "attn_q", in));
      const Vector gates = take_gates(queries.back());
      keys.push_back(times(b + "attn_k", in));
      values.push_back(times(b + "attn_v", in));
      if (traits_.is_olmo()) {
        queries[t] = norm(queries[t], b + "attn_q_norm.weight");
        keys[t] = norm(keys[t], b + "attn_k_norm.weight");
      }
      for (int head = 0; head < s_.heads; ++head) place(queries[t], head, b + "attn_q_norm.weight", t, base);
      for (int head = 0; head < s_.kv_heads; ++head) place(keys[t], head, b + "attn_k_norm.weight", t, base);
      Vector heads(s_.heads * s_.width);
      for (int head = 0; head < s_.heads; ++head) {
        const int shared = head / (s_.heads / s_.kv_heads) * s_.width;
        Vector weight(t + 1);
        double total = 0;
        const size_t first = is_local(layer) && t >= s_.window ? t - s_.window + 1 : 0;
        for (size_t s = first; s <= t; ++s) {
          for (int i = 0; i < s_.width; ++i) weight[s] += queries[t][head * s_.width + i] * keys[s][shared + i];
          total += weight[s] = std::exp(weight[s] * score_scale(t));
        }
        if (traits_.is_gpt_oss()) total += std::exp(values_.at(b + "attn_sinks.weight")[head]);
        for (size_t s = first; s <= t; ++s)
          for (int i = 0; i < s_.width; ++i) heads[head * s_.width + i] += weight[s] / total * values[s][shared + i];
      }
      for (size_t i = 0; i < gates.size(); ++i) heads[i] *= sigmoid(gates[i]);
      out.push_back(times(b + "attn_output", heads));
    }
    return out;
  }

  void add_delta_net(const std::string& b) {
    const int n = s_.net_width;
    add(b + "attn_qkv.weight", s_.mixed(), s_.hidden, 2);
    add(b + "attn_gate.weight", s_.net_values * n, s_.hidden, 1);
    add(b + "ssm_conv1d.weight", s_.mixed(), s_.taps, 1);
    add_vector(b + "ssm_dt.bias", s_.net_values, -3, 3);
    add_vector(b + "ssm_a", s_.net_values, -1, 0.3);
    add(b + "ssm_beta.weight", s_.net_values, s_.hidden, 1);
    add(b + "ssm_alpha.weight", s_.net_values, s_.hidden, 1);
    add_vector(b + "ssm_norm.weight", n, 1, 0.2);
    add(b + "ssm_out.weight", s_.hidden, s_.net_values * n, 1);
    if (!traits_.is_grouped()) return;
    // Rows of a key head together: those of beta and alpha, and in older files those of all others.
    const int each = s_.values_per_key(), keys = s_.net_keys * n;
    join_by_key(b + "ssm_ba.weight", {{b + "ssm_beta.weight", 0, each}, {b + "ssm_alpha.weight", 0, each}});
    if (traits_.has_joint_input)
      join_by_key(b + "ssm_in.weight", {{b + "attn_qkv.weight", 0, n},
                                        {b + "attn_qkv.weight", keys, n},
                                        {b + "attn_qkv.weight", 2 * keys, each * n},
                                        {b + "attn_gate.weight", 0, each * n}});
  }
  struct RowsOfKey {
    std::string name;
    int first, count;  // of key head 0; those of the next one follow
  };
  void join_by_key(const std::string& name, const std::vector<RowsOfKey>& parts) {
    const GgufWriter::Tensor& first = tensor(parts[0].name);
    const size_t row = first.data.size() / first.dims[1];
    const auto type = static_cast<GgufType>(first.type);
    std::string data;
    for (int key = 0; key < s_.net_keys; ++key)
      for (const RowsOfKey& part : parts)
        data += tensor(part.name).data.substr((part.first + key * part.count) * row, part.count * row);
    for (const RowsOfKey& part : parts) writer.remove_tensor(part.name);
    const uint64_t rows = data.size() / row;
    writer.tensor(name, {uint64_t(s_.hidden), rows}, type, std::move(data));
  }
  const GgufWriter::Tensor& tensor(const std::string& name) const {
    return *std::find_if(writer.tensors.begin(), writer.tensors.end(),
                         [&](const GgufWriter::Tensor& t) { return t.name == name; });
  }
  void add_experts(const std::string& b) {
    add(b + "ffn_gate_inp.weight", s_.experts, s_.hidden, 2);
    if (traits_.is_gpt_oss()) add_vector(b + "ffn_gate_inp.bias", s_.experts, 0, 1);
    const auto add_stack = [&](const std::string& name, uint64_t rows, uint64_t k, double gain) {
      put(b + name + ".weight", {k, rows, uint64_t(s_.experts)}, 0, gain / std::sqrt(double(k)));
      if (traits_.is_gpt_oss()) put(b + name + ".bias", {rows, uint64_t(s_.experts)}, 0, 0.5);
    };
    const double wide = traits_.is_gpt_oss() ? 5 : 1;  // some of gpt-oss' values meet the clamps
    add_stack("ffn_gate_exps", s_.inner, s_.hidden, wide);
    add_stack("ffn_up_exps", s_.inner, s_.hidden, wide);
    add_stack("ffn_down_exps", s_.hidden, s_.inner, 1 / wide);
    if (traits_.is_glm_moe()) add_vector(b + "exp_probs_b.bias", s_.experts, 0, 0.3);
    if (!traits_.has_shared_expert()) return;
    add(b + "ffn_gate_shexp.weight", s_.inner, s_.hidden, 1);
    add(b + "ffn_up_shexp.weight", s_.inner, s_.hidden, 1);
    add(b + "ffn_down_shexp.weight", s_.hidden, s_.inner, 1);
    if (traits_.has_shared_gate()) add_vector(b + "ffn_gate_inp_shexp.weight", s_.hidden, 0, 0.3);
  }
  void add(const std::string& name, uint64_t rows, uint64_t k, double gain) {
    put(name, {k, rows}, 0, gain / std::sqrt(double(k)));
  }
  // Matrices of equal rows in the file become one.
  void join(const std::string& name, const std::vector<std::string>& parts) {
    std::string data;
    uint64_t k = 0, rows = 0;
    GgufType type = GgufType::F32;
    for (const std::string& part : parts) {
      const GgufWriter::Tensor& t = tensor(part);
      data += t.data;
      k = t.dims[0], rows += t.dims[1];
      type = static_cast<GgufType>(t.type);
      writer.remove_tensor(part);
    }
    writer.tensor(name, {k, rows}, type, std::move(data));
  }
  void add_vector(const std::string& name, uint64_t n, double mean, double deviation) {
    put(name, {n}, mean, deviation);
  }
  void put(const std::string& name, std::vector<uint64_t> dims, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    uint64_t count = 1;
    for (uint64_t d : dims) count *= d;
    std::vector<float> floats;
    for (uint64_t i = 0; i < count; ++i) floats.push_back(float(normal(random_)));
    const bool is_quantised = dims.size() > 1 && s_.type == GgufType::Q8_0 && dims[0] % 32 == 0;
    std::string data = is_quantised ? rounded_to_bytes(floats)
                                    : std::string(reinterpret_cast<const char*>(floats.data()), count * sizeof(float));
    values_[name] = Vector(floats.begin(), floats.end());
    writer.tensor(name, std::move(dims), is_quantised ? GgufType::Q8_0 : GgufType::F32, std::move(data));
  }
  // The blocks of Q8_0; the values become what these stand for.
  static std::string rounded_to_bytes(std::vector<float>& values) {
    constexpr size_t kBlock = 32;
    std::string data;
    for (size_t at = 0; at < values.size(); at += kBlock) {
      float greatest = 0;
      for (size_t i = at; i < at + kBlock; ++i) greatest = std::max(greatest, std::abs(values[i]));
      const auto bits = static_cast<uint16_t>(to_bits({.f = greatest / 127}, DType::F16));
      const double scale = from_bits(bits, DType::F16).f;
      data += GgufWriter::le(bits);
      for (size_t i = at; i < at + kBlock; ++i) {
        const auto q = static_cast<int8_t>(std::clamp(std::lround(values[i] / scale), -127L, 127L));
        data += GgufWriter::le(q);
        values[i] = static_cast<float>(scale * q);
      }
    }
    return data;
  }

  Traits traits_;
  Sizes s_;
  std::mt19937 random_{11};
  std::map<std::string, Vector> values_;
};

inline const Traits kSmallGptOss = {
    .architecture = "gpt-oss", .has_bias = true, .network_norm = "post_attention_norm", .has_experts = true};

inline const Traits kSmallQwen35 = {
    .architecture = "qwen35", .has_norms = true, .rotated = kWidth / 4, .network_norm = "post_attention_norm"};

inline const Traits kSmallQwen3Next = {.architecture = "qwen3next",
                                       .has_norms = true,
                                       .rotated = kWidth / 4,
                                       .network_norm = "post_attention_norm",
                                       .has_experts = true};

}  // namespace smelt::test
