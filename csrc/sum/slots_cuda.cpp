#include "sum/slots_cuda.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace reduce_ops::sum {
namespace {

constexpr int kSetsPerAllocation = 2;     // 1 MiB at a time
constexpr size_t kMaxEagerStreams = 129;  // that sets are kept for: PyTorch's own 128 of a device and its default one

/// The sets of one device. A set is always in one of three places: free, an eager stream's, or a capture's.
/// Every set is all zero whenever no launch that was given it is under way, because each launch leaves it so.
struct Pool {
  using CaptureStream = std::pair<unsigned long long, cudaStream_t>;

  std::mutex mutex;
  std::vector<void*> free;
  std::map<unsigned long long, void*> eager;  // by the stream's id, which no later stream gets
  std::map<CaptureStream, void*> captured;
};

/// Never destroyed: graphs may outlive every static object.
Pool& pool_of(int device) {
  static auto* pools = new std::array<Pool, 64>;
  TORCH_INTERNAL_ASSERT(device >= 0 && device < static_cast<int>(pools->size()));
  return (*pools)[device];
}

constexpr size_t kAllocationBytes = kSetsPerAllocation * kSlotBytes;

/// Also of a stream, which takes memory too.
void check_memory(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory: a sum needs ", kAllocationBytes,
                     " bytes beside those of PyTorch's allocator, once for each two streams or captures");
  }
  C10_CUDA_CHECK(status);
}

/// Memory that PyTorch's allocator does not know. It may hold all that is free, and gives that back if asked, but not
/// while a stream captures.
void* malloc_beside_pytorch(bool capturing) {
  void* memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, kAllocationBytes);
  if (status == cudaErrorMemoryAllocation && !capturing) {
    cudaGetLastError();
    c10::cuda::CUDACachingAllocator::emptyCache();
    status = cudaMalloc(&memory, kAllocationBytes);
  }
  check_memory(status);
  return memory;
}

/// More free sets, zeroed. Allowed while a stream captures: the memory is not part of any graph.
void allocate(Pool& pool, bool capturing) {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  void* const memory = malloc_beside_pytorch(capturing);
  cudaStream_t stream = nullptr;
  cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (status == cudaSuccess) {
    status = cudaMemsetAsync(memory, 0, kAllocationBytes, stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
    C10_CUDA_IGNORE_ERROR(cudaStreamDestroy(stream));
  }
  if (status != cudaSuccess) C10_CUDA_IGNORE_ERROR(cudaFree(memory));
  check_memory(status);
  for (int i = 0; i < kSetsPerAllocation; ++i) pool.free.push_back(static_cast<char*>(memory) + i * kSlotBytes);
}

void* take_free(Pool& pool, bool capturing) {
  if (pool.free.empty()) allocate(pool, capturing);
  void* set = pool.free.back();
  pool.free.pop_back();
  return set;
}

/// What a graph holds on to; the driver calls `release` when the last of it is gone and no replay is under way.
struct Loan {
  Pool* pool;
  Pool::CaptureStream key;

  static void release(void* loan_pointer) {
    const std::unique_ptr<Loan> loan(static_cast<Loan*>(loan_pointer));
    const std::lock_guard<std::mutex> lock(loan->pool->mutex);
    const auto entry = loan->pool->captured.find(loan->key);
    loan->pool->free.push_back(entry->second);
    loan->pool->captured.erase(entry);
  }
};

void lend(Pool& pool, Pool::CaptureStream key, cudaGraph_t graph) {
  const auto entry = pool.captured.emplace(key, take_free(pool, /*capturing=*/true)).first;
  cudaUserObject_t object = nullptr;
  auto loan = std::make_unique<Loan>(Loan{&pool, key});
  cudaError_t status =
      cudaUserObjectCreate(&object, loan.get(), Loan::release, /*initialRefcount=*/1, cudaUserObjectNoDestructorSync);
  if (status == cudaSuccess) {
    status = cudaGraphRetainUserObject(graph, object, /*count=*/1, cudaGraphUserObjectMove);
  }
  if (status == cudaSuccess) {
    loan.release();  // the graph's now
    return;
  }
  pool.free.push_back(entry->second);
  pool.captured.erase(entry);
  C10_CUDA_CHECK(status);
}

c10::DataPtr kept(void* set) { return {set, c10::Device(c10::kCUDA)}; }

/// Where streams come and go nobody can tell when one of them is done with a set of its own. So one from PyTorch's
/// allocator, which gives memory that a stream has let go only to what comes behind on that stream. 2^18 floats take
/// 4.7 us then instead of 2.2, and the call the host 13 to 17 us instead of 8 (H100).
c10::DataPtr for_one_launch(cudaStream_t stream) {
  c10::DataPtr set = c10::cuda::CUDACachingAllocator::get()->allocate(kSlotBytes);
  C10_CUDA_CHECK(cudaMemsetAsync(set.get(), 0, kSlotBytes, stream));
  return set;
}

}  // namespace

c10::DataPtr slots_for(c10::cuda::CUDAStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  cudaGraph_t graph = nullptr;
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &capture, &graph, nullptr, nullptr, nullptr));

  Pool& pool = pool_of(stream.device_index());
  const std::lock_guard<std::mutex> lock(pool.mutex);
  if (status == cudaStreamCaptureStatusActive) {
    const Pool::CaptureStream key(capture, stream.stream());
    if (pool.captured.count(key) == 0) lend(pool, key, graph);
    return kept(pool.captured.at(key));
  }
  unsigned long long id = 0;  // a handle would not do: cudaStreamPerThread is another stream in each thread
  C10_CUDA_CHECK(cudaStreamGetId(stream, &id));
  if (const auto entry = pool.eager.find(id); entry != pool.eager.end()) return kept(entry->second);
  if (pool.eager.size() == kMaxEagerStreams) return for_one_launch(stream);
  return kept(pool.eager.emplace(id, take_free(pool, /*capturing=*/false)).first->second);
}

}  // namespace reduce_ops::sum
