#include "server/access.h"

#include <string_view>

namespace smelt {
namespace {

// The time does not tell how much of a key was right.
bool same_secret(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  return difference == 0;
}

std::string_view without_port(std::string_view host) {
  const size_t colon = host.find(':', host.starts_with('[') ? host.find(']') : 0);
  return host.substr(0, colon);
}

// An address cannot be made to mean another machine, as a name can.
bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  for (std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  return false;
}

}  // namespace

std::optional<uint64_t> number_of_key(const AccessRules& rules, const HttpRequest& request) {
  if (rules.api_keys.empty()) return 0;
  std::string_view given = request.header("authorization");
  if (given.starts_with("Bearer "))
    given.remove_prefix(7);
  else
    given = request.header("x-api-key");
  std::optional<uint64_t> known;
  for (size_t i = 0; i < rules.api_keys.size(); ++i)
    if (same_secret(given, rules.api_keys[i])) known = i + 1;
  return known;
}

std::optional<ApiError> why_refused(const AccessRules& rules, const HttpRequest& request, bool is_open) {
  const std::string_view host = request.header("host"), origin = request.header("origin"), name = without_port(host);
  if (rules.api_keys.empty() && !host.empty() && name != "localhost" && name != rules.host && !is_address(name))
    return ApiError{.status = 403,
                    .message = "Host: this server is not known as " + std::string(name) +
                               "; use its address, or start it with an API key"};
  if (!origin.empty() && !is_own_origin(origin, host))
    return ApiError{.status = 403, .message = "Origin: pages of " + std::string(origin) + " may not ask this server"};
  if (!is_open && !number_of_key(rules, request))
    return ApiError{
        .status = 401,
        .message = "the API key is missing or wrong; send it as Authorization: Bearer KEY or X-Api-Key: KEY",
        .code = "invalid_api_key"};
  if (request.method == "POST" && !request.header("content-type").starts_with("application/json"))
    return ApiError{.status = 415, .message = "Content-Type: expected application/json"};
  return std::nullopt;
}

}  // namespace smelt
