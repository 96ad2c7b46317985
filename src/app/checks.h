// Checks of option values. CLI11 has such validators, but they clutter the help and let "nan" through.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace smelt {

CLI::Validator whole_number(int64_t min, int64_t max);
CLI::Validator number(double min, double max);
CLI::Validator one_of(std::initializer_list<const char*> names);

}  // namespace smelt
