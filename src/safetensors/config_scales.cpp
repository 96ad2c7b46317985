// Granite's multipliers of a config.json.
#include "base/printable.h"
#include "safetensors/config_parts.h"

namespace smelt {

void read_multipliers(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  pass.out.real("embedding_scale", in.real_or("embedding_multiplier", 1));
  pass.out.real("attention.scale", in.real_or("attention_multiplier", 1));
  pass.out.real("residual_scale", in.real_or("residual_multiplier", 1));
  pass.out.real("logit_scale", in.real_or("logits_scaling", 1));
  const std::string positions = in.text_or("position_embedding_type", "rope");
  if (positions != "rope" && positions != "nope")
    in.refuse("position_embedding_type " + printable(positions) + " is not supported; rope and nope are");
  pass.out.flag("rope.scaling.finetuned", positions == "rope");
}

}  // namespace smelt
