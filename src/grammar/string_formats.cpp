#include "grammar/string_formats.h"

namespace smelt {
namespace {

// 29 February is left out: which years have it is not regular enough to be worth it.
#define DATE \
  "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define GROUP "[0-9a-f]{1,4}"

struct Format {
  const char *name, *expression;
};

constexpr Format kFormats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P([0-9]{1,4}D|[0-9]{1,4}W|([0-9]{1,4}D)?T([0-9]{1,4}H)?([0-9]{1,4}M)?[0-9]{1,4}S)"},
    {"email", "[A-Za-z0-9_]+([.+-][A-Za-z0-9_]+)*@" LABEL "(\\." LABEL "){1,4}"},
    {"hostname", LABEL "(\\." LABEL "){0,4}"},
    {"ipv4", BYTE "(\\." BYTE "){3}"},
    {"ipv6", "((" GROUP ":){7}" GROUP "|::(" GROUP "(:" GROUP "){0,5})?|" GROUP "::(" GROUP "(:" GROUP "){0,4})?)"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"uri", "[a-z][a-z0-9+.-]{0,20}://" LABEL "(\\." LABEL "){0,4}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9_.~-]*)*"
            "(\\?[A-Za-z0-9_.~=&-]*)?(#[A-Za-z0-9_.~-]*)?"},
};

}  // namespace

const char* string_format(std::string_view name) {
  for (const Format& f : kFormats)
    if (name == f.name) return f.expression;
  return nullptr;
}

}  // namespace smelt
