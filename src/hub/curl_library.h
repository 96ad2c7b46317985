// libcurl, loaded when something is to be fetched: the program starts without it where there is none.
#pragma once

#include <curl/curl.h>

#include <string>

namespace smelt {

struct CurlLibrary {
  // clang-format off
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...);
  decltype(&::curl_easy_perform) easy_perform;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...);
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_url) url;
  decltype(&::curl_url_cleanup) url_cleanup;
  decltype(&::curl_url_set) url_set;
  decltype(&::curl_url_get) url_get;
  decltype(&::curl_free) free;
  // clang-format on
};

// Null where it is not on this system, or too old.
const CurlLibrary* curl_library();

constexpr const char* kNoCurl =
    "libcurl is not on this system, which fetching needs; install it (Debian: libcurl4), or fetch the file yourself";

}  // namespace smelt
