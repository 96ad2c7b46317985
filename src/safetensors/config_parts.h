// The parts of a config.json: each function reads one and writes its keys. Errors stay with the reader.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/head.h"
#include "safetensors/config.h"
#include "safetensors/config_reader.h"

namespace smelt {

// Keys of one architecture: "block_count" is "llama.block_count".
class ArchitectureKeys {
 public:
  ArchitectureKeys(NewMetadata& out, std::string_view architecture)
      : out_(out), prefix_(std::string(architecture) + ".") {}

  void number(const std::string& key, uint32_t value) { out_.number(prefix_ + key, value); }
  void numbers(const std::string& key, const std::vector<int32_t>& values) { out_.numbers(prefix_ + key, values); }
  void real(const std::string& key, double value) { out_.real(prefix_ + key, static_cast<float>(value)); }
  void flag(const std::string& key, bool value) { out_.flag(prefix_ + key, value); }
  void text(const std::string& key, const std::string& value) { out_.text(prefix_ + key, value); }

 private:
  NewMetadata& out_;
  std::string prefix_;
};

struct ConfigPass {
  ConfigReader& in;
  HubConfig& model;
  ArchitectureKeys& out;
};

// Of "layer_types": every n-th layer is one of full attention, counted from 1. Nothing where files have no such list.
std::optional<uint32_t> period_of_layers(ConfigReader& in);

void read_heads(ConfigPass& pass);
void read_latents(ConfigPass& pass);
void read_windows(ConfigPass& pass);
void read_own_window(ConfigPass& pass);
void refuse_windows(ConfigPass& pass);
void read_delta_nets(ConfigPass& pass);
void read_multipliers(ConfigPass& pass);
void read_temperature(ConfigPass& pass);
void read_softmax_experts(ConfigPass& pass);
void read_routed_experts(ConfigPass& pass);
void read_local_experts(ConfigPass& pass);

}  // namespace smelt
