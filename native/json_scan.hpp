// JSON scan: how much would a parser have to build, found without building it?
#pragma once

#include <cstddef>
#include <string_view>

namespace matchset {

struct JsonSize {
  std::size_t values = 0;   // strings, numbers, literals, arrays and objects; keys are not values
  std::size_t keys = 0;     // of all objects
  std::size_t depth = 0;    // of arrays and objects in one another
  std::size_t longest = 0;  // bytes of a string as it is written, keys too
};

// What a text holds, whether it is JSON or not: exact for JSON, and of anything else up to where it breaks the rules at
// least what a parser builds before it notices.
JsonSize scan_json(std::string_view text);

}  // namespace matchset
