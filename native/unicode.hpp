// Unicode: which code points are the same text?
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace matchset {

// Kinds of code points beyond ASCII; the values are those of unicode_tables.inc.
enum class CodeKind : std::uint8_t { split, word, symbol, drop };

CodeKind code_kind(char32_t code);

// Decodes at most `limit` code points; bytes that are not UTF-8 become U+FFFD.
void decode_utf8(std::string_view bytes, std::size_t limit, std::vector<char32_t>& codes);
void append_utf8(char32_t code, std::vector<char>& out);

// Replace codes by casefold(NFKD(codes)), and by NFKC(codes).
void fold_compatible(std::vector<char32_t>& codes, std::vector<char32_t>& scratch);
void compose_compatible(std::vector<char32_t>& codes, std::vector<char32_t>& scratch);

const char* unicode_version();

}  // namespace matchset
