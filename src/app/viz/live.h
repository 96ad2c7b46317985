// The page while it is served: the answers to its requests.
#pragma once

#include <string>

#include "app/viz/what_if.h"
#include "server/http.h"

namespace smelt {

struct LivePage {
  std::string page;
  std::string token;          // that the page sends with its questions, and no other page knows
  WhatIf* what_if = nullptr;  // null: there is no model behind the page
};

// 128 bits that nobody can guess, in hexadecimal digits.
std::string new_token();

// GET / is the page; POST /what-if, with the token as a key, asks WhatIf. Requests that a page of another site could
// have sent are refused.
HttpResponse answer_to(const HttpRequest& request, const LivePage& live);

}  // namespace smelt
