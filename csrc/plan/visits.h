// What memory gives more than once: an order that comes back to a sector after L2 has lost it reads all of that again.
//
// Every dimension stands with how much the kernel reads between two of its neighbours. From the closest ones on,
// dimensions join to pieces of memory as long as L2 holds what was read in between; a piece that cannot grow any more
// comes with what else is in its first and in its last granule. (15, 9324, 17, 52) bfloat16 over all but 52, in runs of
// 34 bytes of which neighbours are visited 9324 runs later by some hundred blocks, takes 2.8 times the bytes, and 291
// us where a box of it takes 128 (H100).

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "sum/strides.h"

namespace reduce_ops::sum {

/// A dimension, and how many elements all threads together read from one index of it to the next.
struct Visit {
  int64_t size;
  int64_t stride;
  double between;
};

/// The dimensions of an input, as a kernel comes along them.
class Visits {
 public:
  /// The first `dims` dimensions, which each of `walkers` follows for a `stretch` of elements, at the same time.
  void add_walks(const Strides& s, int dims, double stretch, double walkers) {
    double elements = 1;
    for (int d = 0; d < dims; ++d) {
      const double passed = elements < stretch ? elements * walkers : std::max(elements, stretch * walkers);
      add(s, d, elements > 1 ? passed : 0);
      elements *= static_cast<double>(s.size[d].value);
    }
  }

  /// Dimensions along which walkers stand side by side, from index to index `apart` of them. Of those that are on their
  /// way together, neighbours read neighbours at the same time.
  void add_walkers(const Strides& s, double apart, double stretch, double walkers) {
    for (int d = 0; d < s.dims; ++d) {
      add(s, d, apart < walkers ? 0 : apart * stretch);
      apart *= static_cast<double>(s.size[d].value);
    }
  }

  /// Bytes from memory for each byte of an element, if L2 holds that many.
  double bytes_from_memory(int element_size, double l2_bytes) const {
    const auto size = static_cast<double>(element_size);
    double span = 1;      // of a piece, in elements
    double elements = 1;  // that are visited there
    bool joined[2 * kMaxDims] = {};
    const auto joins = [&](const Visit& visit) {
      const auto stride = static_cast<double>(visit.stride);
      const bool beside = stride <= span || ((stride - span) * size <= kGap && span * size < kLongPiece);
      return beside && visit.between * (span * size + kOfLines) / elements <= l2_bytes;
    };
    for (int d = 0; d < dims_; ++d) {
      if (joined[d] || !joins(visit_[d])) continue;
      span += static_cast<double>((visit_[d].size - 1) * visit_[d].stride);
      elements *= static_cast<double>(visit_[d].size);
      joined[d] = true;
      d = -1;  // others may join now
    }
    int64_t aligned = kGranule;
    for (int d = 0; d < dims_; ++d) {
      if (!joined[d]) aligned = std::gcd(aligned, visit_[d].stride * element_size);
    }
    return std::max(1., (span * size + static_cast<double>(kGranule - aligned)) / (elements * size));
  }

 private:
  static constexpr int64_t kGranule = 64;  // bytes that memory gives at once
  static constexpr int kGap = 32;          // bytes that are no reason not to read on
  static constexpr int kOfLines = 96;  // bytes of L2 that a piece takes besides its own: it keeps whole lines of 128
  static constexpr int kLongPiece = 4096;  // bytes, beside which its ends are nothing

  /// Kept in the order of `between`, and of strides.
  void add(const Strides& s, int d, double between) {
    const Visit visit{s.size[d].value, std::abs(s.stride[d]), between};
    if (visit.size == 1 || visit.stride == 0) return;
    const auto key = [](const Visit& v) { return std::pair(v.between, v.stride); };
    int at = dims_++;
    for (; at > 0 && key(visit) < key(visit_[at - 1]); --at) visit_[at] = visit_[at - 1];
    visit_[at] = visit;
  }

  int dims_ = 0;
  Visit visit_[2 * kMaxDims];
};

}  // namespace reduce_ops::sum
