// A device on this machine: host memory, and streams that are threads.
//
// It is really asynchronous, so that missing events, memory that is freed too early and pageable
// host memory show as errors here and not first on an NPU. Copies can be given a cost, because
// host memory has none worth overlapping.
#pragma once

#include <map>
#include <mutex>

#include "device.h"

namespace ascend_ops {

struct CpusimDeviceOptions {
    double copy_ns_a_byte = 0.0;   // simulated time of a copy, on top of the real one
    double launch_ns = 0.0;        // simulated time of a kernel, on top of the real one
};

class CpusimDevice : public Device {
   public:
    explicit CpusimDevice(CpusimDeviceOptions options = {}) : options_(options) {}

    Result Allocate(MemoryType type, uint64_t bytes, void** memory) override;
    Result Free(MemoryType type, void* memory) override;
    Result CreateStream(StreamHandle* stream) override;
    Result DestroyStream(StreamHandle stream) override;
    Result Synchronize(StreamHandle stream) override;
    Result CreateEvent(EventHandle* event) override;
    Result DestroyEvent(EventHandle event) override;
    Result Record(EventHandle event, StreamHandle stream) override;
    Result WaitEvent(StreamHandle stream, EventHandle event) override;
    Result SynchronizeEvent(EventHandle event) override;
    Result QueryEvent(EventHandle event, bool* done) override;
    Result Copy(void* destination, const void* source, uint64_t bytes, CopyKind kind,
                StreamHandle stream) override;
    Result Launch(const AscendOperator* op, const AscendProblem& problem, const AscendPlan& plan,
                  std::vector<AscendTensor> tensors, StreamHandle stream) override;

    uint64_t live_allocations() const;  // for the tests: leaks

   private:
    // An error unless [memory, memory + bytes) lies in one live allocation of that type.
    Result RequireLive(MemoryType type, const void* memory, uint64_t bytes,
                       const char* what) const;

    struct Allocation {
        MemoryType type;
        uint64_t bytes;
    };
    CpusimDeviceOptions options_;
    mutable std::mutex mutex_;
    std::map<const uint8_t*, Allocation> live_;
};

}  // namespace ascend_ops
