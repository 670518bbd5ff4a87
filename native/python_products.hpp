// Ids and titles of products as Python holds them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "python_arrays.hpp"
#include "strings.hpp"

namespace matchset {

using Texts = std::pair<In<std::uint8_t>, In<std::int64_t>>;

// Not checked as a whole: only the strings that are needed are read, and checked then.
inline StringsView to_view(const Texts& texts) {
  return {{reinterpret_cast<const char*>(texts.first.data()), texts.first.size()}, to_span(texts.second)};
}

// Texts of products that keep their arrays alive.
class ProductTexts {
 public:
  ProductTexts(Texts ids, std::optional<Texts> titles)
      : ids_(std::move(ids)), titles_(std::move(titles)), id_view_(to_view(ids_)) {
    if (titles_) title_view_ = to_view(*titles_);
  }

  const StringsView& ids() const { return id_view_; }
  // nullptr where there are none.
  const StringsView* titles() const { return title_view_ ? &*title_view_ : nullptr; }

 private:
  Texts ids_;
  std::optional<Texts> titles_;
  StringsView id_view_;
  std::optional<StringsView> title_view_;
};

}  // namespace matchset
