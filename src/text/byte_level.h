// The byte-level alphabet: how token texts in files spell bytes with printable characters, " the"
// as "Ġthe".
//
// The 188 printable characters of Latin-1 stand for the byte of their code; the other 68 bytes, in
// order, have the characters from U+0100 on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smelt {

// The bytes that a token text stands for. Nothing where a character is not of the alphabet.
std::optional<std::string> bytes_of_token_text(std::string_view text);
// The other direction.
std::string token_text_of_bytes(std::string_view bytes);

}  // namespace smelt
