#include "hub/curl_library.h"

#include <dlfcn.h>

namespace smelt {
namespace {

constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* from, CurlLibrary& c) {
  return find(from, "curl_easy_init", c.easy_init) && find(from, "curl_easy_cleanup", c.easy_cleanup) &&
         find(from, "curl_easy_setopt", c.easy_setopt) && find(from, "curl_easy_perform", c.easy_perform) &&
         find(from, "curl_easy_getinfo", c.easy_getinfo) && find(from, "curl_easy_strerror", c.easy_strerror) &&
         find(from, "curl_slist_append", c.slist_append) && find(from, "curl_slist_free_all", c.slist_free_all) &&
         find(from, "curl_url", c.url) && find(from, "curl_url_cleanup", c.url_cleanup) &&
         find(from, "curl_url_set", c.url_set) && find(from, "curl_url_get", c.url_get) &&
         find(from, "curl_free", c.free);
}

const CurlLibrary* load() {
  static CurlLibrary library;
  for (const char* name : kNames) {
    void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    decltype(&::curl_global_init) global_init;
    if (find(handle, "curl_global_init", global_init) && find_all(handle, library) &&
        global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
      return &library;
  }
  return nullptr;
}

}  // namespace

const CurlLibrary* curl_library() {
  static const CurlLibrary* const library = load();
  return library;
}

}  // namespace smelt
