// Kernels whose blocks start while the kernel ahead of them on the stream still ends: programmatic dependent launch.
//
// A kernel starts when the one ahead has ended and its writes are in memory. Launched by launch_early its blocks start
// as soon as the last block ahead has exited, and wait for those writes themselves: 2.6 us instead of 3.8 for an add_
// of one element and the sum of 1024, 11.4 instead of 12.6 for a mul_ and the sum of 2^22, and 0.6 us less of the
// host's time for each launch (H200). Behind a kernel that calls let_next_start() they start earlier still.
//
// In a captured graph it pays only behind another of these kernels: 1.3 us instead of 1.9 for each of many sums of (32,
// 768) over dimension 0. Behind a kernel of others it costs up to 0.7 us (2.86 became 3.50 with an add_). So there a
// kernel starts early if what is ahead of it is the last one that its thread has captured.
//
// A block that waits can already have L2 load what it will read: writes to the GPU's memory go to L2 too, so that what
// is read later is what was written last. The first wave of blocks gains by that even where it does not wait: 31.0 us
// instead of 32.0 for (32, 2^20) over dimension 1, 16.5 instead of 17.4 for 2^24 elements, in a graph behind a kernel
// of others (H200). Which sums do so is part of the plan (Plan::prefetching).
//
// Loads that promise that nobody writes there meanwhile (ld.global.nc, __ldg) are used for what the kernel ahead may
// still write when a block starts. PTX words that promise for as long as a kernel runs; what it is for is that such
// loads may keep what they read in L1. None is issued before wait_for_stream(), nor moved there by the compiler, to
// which that is volatile, and prefetches fill L2 alone, so that there is nothing in L1 that was read too early.

#pragma once

#include "device/standard.cuh"

namespace reduce_ops {

/// Before a thread reads or writes global memory: waits until the kernel ahead on the stream has ended and what it
/// wrote is there. Threads without work may end without, as the launch does not end before those that wait; some must.
__device__ inline void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the kernel behind on the stream start once all blocks of this one have come here or ended. Its blocks then go
/// wherever there is room first. Where they are hardly more than one a multiprocessor, and work for long, some
/// multiprocessors get too many: (131072, 257) over dimension 0 would take 50 us instead of 38, 2621440 elements 5.9
/// instead of 5.0 (H200). So kernels of such blocks do not call it, or only when they have loaded all; of sums the plan
/// says which (Plan::let_next).
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" :::);
#endif
}

/// Has L2 load the line that p lies in. Needs no wait_for_stream().
__device__ inline void prefetch(const void* p) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

/// The same of all words of 16 bytes between begin and end, by one thread.
__device__ inline void prefetch(const void* begin, const void* end) {
#if __CUDA_ARCH__ >= 900
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + 15) & ~uintptr_t{15};
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) & ~uintptr_t{15};
  if (first >= last) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(first), "r"(static_cast<unsigned>(last - first)));
#endif
}

}  // namespace reduce_ops
