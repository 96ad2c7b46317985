#include "hub/http.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/options.h"
#include "base/system_calls.h"
#include "hub/address_kind.h"
#include "hub/curl_library.h"

namespace smelt {
namespace {

constexpr int kMostRedirects = 10;
constexpr long kConnectSeconds = 20;
constexpr long kSlowestBytes = 1, kSilentSeconds = 30;  // less than that for so long: the connection is dead
constexpr size_t kMostHeaderBytes = 64 << 10;
constexpr size_t kMostHeaders = 100;

// REQUIRES: http_get() has found it.
const CurlLibrary& library() { return *curl_library(); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool uses_proxy() {
  const Options& o = options();
  return !o.http_proxy.empty() || !o.https_proxy.empty() || !o.all_proxy.empty();
}

// What redirects carry along.
struct Route {
  std::optional<AddressKind> first;  // of the address that the first request went to
  bool refused = false;
};

// One request and its answer, without redirects.
class Exchange {
 public:
  Exchange(const HttpRequest& request, const std::string& url, HttpAnswer& answer, Route& route)
      : request_(request),
        url_(url),
        answer_(answer),
        route_(route),
        curl_(library().easy_init(), library().easy_cleanup) {}

  std::optional<HttpFailure> run() {
    if (!curl_) return HttpFailure{"no memory is left"};
    set_up();
    const CURLcode code = library().easy_perform(curl_.get());
    if (!head_seen_ && code == CURLE_OK) read_head();
    if (stopped_ || (request_.cancel && *request_.cancel)) return HttpFailure{"stopped", false, true};
    if (route_.refused)
      return HttpFailure{"it leads to an address of this machine or its network, which is not followed", false};
    if (code == CURLE_OK) return std::nullopt;
    return failure(code);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    library().easy_setopt(curl_.get(), option, value);
  }

  void set_up() {
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowestBytes);
    set(CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    set(CURLOPT_USERAGENT, "smelt");
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_tick);
    set(CURLOPT_XFERINFODATA, this);
    if (!uses_proxy()) {  // a proxy decides by itself where it goes
      set(CURLOPT_OPENSOCKETFUNCTION, on_socket);
      set(CURLOPT_OPENSOCKETDATA, this);
    }
    // Bytes are wanted as they lie there: no coding is asked for, and none taken.
    add_header("Accept-Encoding: identity");
    if (!request_.token.empty() && host_of(url_) == host_of(request_.url) && same_scheme())
      add_header("Authorization: Bearer " + request_.token);
    if (request_.range) {
      const HttpRange& r = *request_.range;
      add_header("Range: bytes=" + std::to_string(r.begin) + "-" + std::to_string(r.end - 1));
      if (!request_.if_range.empty()) add_header("If-Range: " + request_.if_range);
    }
    set(CURLOPT_HTTPHEADER, headers_.get());
  }

  bool same_scheme() const { return url_.substr(0, url_.find(':')) == request_.url.substr(0, request_.url.find(':')); }

  void add_header(const std::string& line) { headers_.reset(library().slist_append(headers_.release(), line.c_str())); }

  std::optional<HttpFailure> failure(CURLcode code) const {
    const bool lasting = code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT ||
                         code == CURLE_LOGIN_DENIED || code == CURLE_PEER_FAILED_VERIFICATION || too_many_headers_;
    std::string text = error_[0] ? error_ : library().easy_strerror(code);
    if (too_many_headers_) text = "its headers are too long";
    return HttpFailure{text, !lasting};
  }

  void read_head() {
    head_seen_ = true;
    long status = 0;
    library().easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    answer_.status = static_cast<int>(status);
  }

  bool wants_body() {
    if (head_seen_) return true;
    read_head();
    if (is_redirect(answer_.status)) return true;  // and thrown away
    return !request_.on_head || request_.on_head(answer_);
  }

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    return static_cast<Exchange*>(self)->take_header({data, size}) ? size : 0;
  }

  bool take_header(std::string_view line) {
    header_bytes_ += line.size();
    if (line.starts_with("HTTP/")) answer_.headers.clear();  // after "100 Continue" another head comes
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      answer_.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    too_many_headers_ = header_bytes_ > kMostHeaderBytes || answer_.headers.size() > kMostHeaders;
    return !too_many_headers_;
  }

  static size_t on_data(char* data, size_t, size_t size, void* self) {
    return static_cast<Exchange*>(self)->take_data({data, size}) ? size : 0;
  }

  bool take_data(std::string_view data) {
    if (!wants_body()) return !(stopped_ = true);
    if (is_redirect(answer_.status) || !request_.on_body) return true;
    return !(stopped_ = !request_.on_body(data));
  }

  static int on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const std::atomic<bool>* cancel = static_cast<Exchange*>(self)->request_.cancel;
    return cancel && *cancel ? 1 : 0;
  }

  static curl_socket_t on_socket(void* self, curlsocktype, curl_sockaddr* address) {
    Route& route = static_cast<Exchange*>(self)->route_;
    const AddressKind kind = kind_of(address->addr);
    if (!route.first) route.first = kind;
    if (kind != AddressKind::Public && kind != *route.first) {
      route.refused = true;
      return CURL_SOCKET_BAD;
    }
    return open_socket(address->family, address->socktype, address->protocol);
  }

  struct FreeList {
    void operator()(curl_slist* list) const { library().slist_free_all(list); }
  };

  const HttpRequest& request_;
  const std::string& url_;
  HttpAnswer& answer_;
  Route& route_;
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  char error_[CURL_ERROR_SIZE] = {};
  size_t header_bytes_ = 0;
  bool head_seen_ = false, stopped_ = false, too_many_headers_ = false;
};

std::string next_url(const std::string& base, const std::string& location) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(library().url(), library().url_cleanup);
  char* text = nullptr;
  if (!url || library().url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      library().url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK ||
      library().url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK)
    return "";
  const std::string result = text;
  library().free(text);
  return result;
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string host_of(const std::string& url) {
  if (!curl_library()) return "";
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(library().url(), library().url_cleanup);
  if (!parsed || library().url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  std::string result;
  for (const CURLUPart part : {CURLUPART_HOST, CURLUPART_PORT}) {
    char* text = nullptr;
    if (library().url_get(parsed.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
    result += (result.empty() ? "" : ":") + lower(text);
    library().free(text);
  }
  return result;
}

std::optional<HttpFailure> http_get(const HttpRequest& request, HttpAnswer& answer) {
  if (!curl_library()) return HttpFailure{kNoCurl, false};
  std::string url = request.url;
  Route route;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    answer = {};
    if (auto failed = Exchange(request, url, answer, route).run()) return failed;
    if (!is_redirect(answer.status)) {
      if (request.on_head && answer.header("content-length") == "0") request.on_head(answer);
      return std::nullopt;
    }
    const std::string next = next_url(url, answer.header("location"));
    if (next.empty()) return HttpFailure{"a redirect that leads nowhere", false};
    if (url.starts_with("https:") && !next.starts_with("https:"))
      return HttpFailure{"a redirect that leaves https is not followed", false};
    url = next;
  }
  return HttpFailure{"more than " + std::to_string(kMostRedirects) + " redirects", false};
}

Result<std::string> http_text(const std::string& url, const std::string& token, size_t limit,
                              const std::atomic<bool>* cancel) {
  std::string body;
  bool too_long = false;
  const HttpRequest request{.url = url,
                            .token = token,
                            .on_body =
                                [&](std::string_view data) {
                                  body += data;
                                  return !(too_long = body.size() > limit);
                                },
                            .cancel = cancel};
  HttpAnswer answer;
  const auto failed = http_get(request, answer);
  if (too_long) return Error{"[hub] " + url + ": the answer is longer than " + std::to_string(limit) + " bytes"};
  if (cancel && *cancel) return Error{"[hub] interrupted"};
  if (failed) return Error{"[hub] " + url + ": " + failed->message};
  if (answer.status == 401 || answer.status == 403)
    return Error{"[hub] " + url + ": the server wants to know who asks (" + std::to_string(answer.status) +
                 "); check the name, accept the model's terms on its page, and set HF_TOKEN"};
  if (answer.status == 404) return Error{"[hub] " + url + ": there is no such model; check its name"};
  if (answer.status != 200)
    return Error{"[hub] " + url + ": the server answers " + std::to_string(answer.status) + "; try again later"};
  return body;
}

}  // namespace smelt
