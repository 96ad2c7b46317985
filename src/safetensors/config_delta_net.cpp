// Delta nets of a config.json.
#include "safetensors/config_parts.h"

namespace smelt {

void read_delta_nets(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  const auto period = period_of_layers(in);
  pass.out.number("full_attention_interval", period ? *period : in.whole("full_attention_interval"));
  const uint32_t keys = in.whole("linear_num_key_heads"), values = in.whole("linear_num_value_heads"),
                 width = in.whole("linear_key_head_dim");
  constexpr uint32_t kMost = 1 << 14;  // their product is a number, too
  if (keys == 0 || values % keys != 0 || values > kMost || width > kMost || width != in.whole("linear_value_head_dim"))
    return in.refuse("numbers and widths of heads (linear_num_key_heads ... linear_value_head_dim) do not go together");
  pass.model.net = {.keys = keys, .values = values, .width = width};
  pass.out.number("ssm.group_count", keys);
  pass.out.number("ssm.time_step_rank", values);
  pass.out.number("ssm.state_size", width);
  pass.out.number("ssm.inner_size", values * width);
  pass.out.number("ssm.conv_kernel", in.whole("linear_conv_kernel_dim"));
}

}  // namespace smelt
