#pragma once

// The columns that the weights of a convolution multiply, some places of the output at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops/internal/conv_geometry.h"

namespace tapegrad {

// Columns of a piece: about half of a core's cache, but never so few places that a product would
// spend its time on packing the weight.
inline constexpr std::int64_t kColumnBytes = 512 << 10, kLeastPlaces = 256;

// Places [begin, end) of the output, of some images: all places if there are several images.
struct Piece {
  std::int64_t image = 0, images = 1, begin = 0, end = 0;
  std::int64_t places() const { return images * (end - begin); }
};

// How the output is cut into pieces. It depends on sizes alone, and so do the bits of all sums.
struct Pieces {
  std::int64_t images = 1, chunks = 0;  // images in a piece, and pieces of images
  std::int64_t places = 0, cuts = 1;    // places of an image in a piece, and pieces of an image
  std::int64_t batch = 0, all_places = 0;

  Pieces(const ConvGeometry& g, std::size_t element) : batch(g.batch), all_places(g.places()) {
    // Of the columns of a place, or of its outputs, which are copied where there are several
    // images.
    const std::int64_t bytes =
        std::max(g.depth(), g.out / g.groups) * static_cast<std::int64_t>(element);
    const std::int64_t most =
        std::max(kLeastPlaces, kColumnBytes / std::max<std::int64_t>(1, bytes));
    places = all_places;
    if (all_places > most)
      places = most >= g.out_size.w ? most / g.out_size.w * g.out_size.w : most;
    cuts = (all_places + places - 1) / std::max<std::int64_t>(1, places);
    if (cuts == 1) images = std::clamp<std::int64_t>(most / all_places, 1, std::max(batch, images));
    chunks = (batch + images - 1) / images;
  }
  std::int64_t count() const { return chunks * cuts; }
  Piece operator[](std::int64_t i) const {
    const std::int64_t image = i / cuts * images, begin = i % cuts * places;
    return {image, std::min(images, batch - image), begin, std::min(all_places, begin + places)};
  }
};

// One row of the columns of a piece, in one image: tap (i, j) of a channel meets all places.
struct TapRow {
  const ConvGeometry& g;
  Piece piece;
  std::int64_t x, column;  // where the channel's plane and the row begin
  std::int64_t shift_h;    // row r of the output meets row r·stride + shift_h of x
  TapRange range;

  // Calls visit(x, column, n, begin, end) for each stretch of n places in a row of the output:
  // [begin, end) of them meet the elements x + t·stride.w, the others meet padding.
  template <class Visit>
  void each_row(const Visit& visit) const {
    const std::int64_t width = g.out_size.w;
    std::int64_t r = piece.begin / width, t = piece.begin % width, to = column;
    for (std::int64_t place = piece.begin; place < piece.end; ++r, t = 0) {
      const std::int64_t n = std::min(width - t, piece.end - place);
      const std::int64_t y = r * g.stride.h + shift_h;
      const bool inside = y >= 0 && y < g.size.h;
      visit(x + y * g.size.w + t * g.stride.w + range.shift, to, n,
            inside ? std::clamp<std::int64_t>(range.begin - t, 0, n) : 0,
            inside ? std::clamp<std::int64_t>(range.end - t, 0, n) : 0);
      place += n;
      to += n;
    }
  }

  // True if rows of x and of the output are equally long: then all places meet x at one distance,
  // but for those whose tap lies in the padding beside a row.
  bool is_flat() const {
    return g.stride.h == 1 && g.stride.w == 1 && g.out_size.w == g.size.w &&
           piece.begin % g.size.w == 0 && piece.end % g.size.w == 0;
  }
  std::int64_t distance() const { return shift_h * g.size.w + range.shift; }
  // The places, counted from the piece's first, that meet elements of the plane.
  std::pair<std::int64_t, std::int64_t> flat_places() const {
    const std::int64_t width = g.size.w, n = piece.end - piece.begin;
    const std::int64_t first = std::max(-shift_h * width, -distance()) - piece.begin;
    const std::int64_t last =
        g.size.h * width - std::max(shift_h * width, distance()) - piece.begin;
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, n);
    return {begin, std::clamp(last, begin, n)};
  }
  // Puts zeros where the tap lies beside a row.
  template <class T>
  void clear_sides(T* row) const {
    const std::int64_t width = g.size.w, n = piece.end - piece.begin;
    for (std::int64_t i = 0; i < n; i += width) {
      for (std::int64_t t = 0; t < range.begin; ++t) row[i + t] = T{0};
      for (std::int64_t t = range.end; t < width; ++t) row[i + t] = T{0};
    }
  }
};

// Calls visit(row) for the columns (channels / groups · taps, places) of a piece of one group,
// whose first channel in the piece's first image is at 0 of x. Threads share out channels.
template <class Visit>
void walk(const ConvGeometry& g, const Piece& piece, const Visit& visit) {
  const std::int64_t plane = g.size.h * g.size.w, taps = g.taps.h * g.taps.w;
  const std::int64_t work = std::max<std::int64_t>(1, taps * piece.places());
  parallel_for(g.channels / g.groups, kElementGrain / work + 1, [&](auto first, auto last) {
    for (std::int64_t row = first * taps; row < last * taps; ++row) {
      const std::int64_t c = row / taps, i = row % taps / g.taps.w;
      const TapRange range(g, row % g.taps.w);
      for (std::int64_t m = 0; m < piece.images; ++m) {
        visit(TapRow{g, piece, (m * g.channels + c) * plane,
                     row * piece.places() + m * (piece.end - piece.begin),
                     i * g.dilation.h - g.padding.h, range});
      }
    }
  });
}

template <class T>
void unfold(const ConvGeometry& g, const Piece& piece, const T* x, T* columns) {
  const std::int64_t stride = g.stride.w;
  walk(g, piece, [=](const TapRow& row) {
    if (row.is_flat()) {
      const auto [begin, end] = row.flat_places();
      T* to = columns + row.column;
      std::fill(to, to + begin, T{0});
      if (begin < end) {
        std::copy_n(x + (row.x + piece.begin + begin + row.distance()), end - begin, to + begin);
      }
      std::fill(to + end, to + (piece.end - piece.begin), T{0});
      return row.clear_sides(to);
    }
    row.each_row([=](auto from, auto column, auto n, auto begin, auto end) {
      T* to = columns + column;
      for (std::int64_t t = 0; t < begin; ++t) to[t] = T{0};
      if (stride == 1) {
        for (auto t = begin; t < end; ++t) to[t] = x[from + t];
      } else {
        for (auto t = begin; t < end; ++t) to[t] = x[from + t * stride];
      }
      for (auto t = std::max(begin, end); t < n; ++t) to[t] = T{0};
    });
  });
}

// Adds each element of the columns to the element of x that it comes from. What lies over padding
// may be overwritten.
template <class T>
void fold(const ConvGeometry& g, const Piece& piece, T* columns, T* x) {
  const std::int64_t stride = g.stride.w;
  walk(g, piece, [=](const TapRow& row) {
    if (row.is_flat()) {
      const auto [begin, end] = row.flat_places();
      T* const own = columns + row.column;
      row.clear_sides(own);
      if (begin == end) return;
      const T* __restrict from = own + begin;
      T* __restrict to = x + (row.x + piece.begin + begin + row.distance());
      for (std::int64_t i = 0; i < end - begin; ++i) to[i] += from[i];
      return;
    }
    row.each_row([=](auto at, auto column, auto, auto begin, auto end) {
      if (begin >= end) return;
      const T* __restrict from = columns + column + begin;
      T* __restrict to = x + (at + begin * stride);
      if (stride == 1) {
        for (std::int64_t t = 0; t < end - begin; ++t) to[t] += from[t];
      } else {
        for (std::int64_t t = 0; t < end - begin; ++t) to[t * stride] += from[t];
      }
    });
  });
}

}  // namespace tapegrad
