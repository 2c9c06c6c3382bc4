// One interface to every operator: register, allocate, initialise, compute, finalise.
//
// A session owns a stream. ComputeAsync plans, takes a workspace of the size that the operator
// asks for, queues the kernel and returns at once; the Completion holds operands and workspace
// until the device is done with them, whatever the caller does with its own handles.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "device.h"
#include "memory_pool.h"

namespace ascend_ops {

// Operators by name. A second operator of a name is refused, so that a plug-in cannot replace one.
class OperatorRegistry {
   public:
    Result Register(const AscendOperator* op);
    Result RegisterLibrary(const AscendLibrary* library);
    Result Find(const std::string& name, const AscendOperator** op) const;

   private:
    mutable std::mutex mutex_;
    std::map<std::string, const AscendOperator*> operators_;
};

// Work under way. Wait gives the work's result, as often as it is asked.
class Completion {
   public:
    Result Wait();
    Result Done(bool* done);

   private:
    friend class OperatorSession;
    std::shared_ptr<Device> device_;
    std::shared_ptr<Stream> stream_;
    std::unique_ptr<Event> event_;
    std::vector<std::shared_ptr<Buffer>> operands_;
    PooledBuffer workspace_;
    std::mutex mutex_;
    bool waited_ = false;
    Result result_;
};

class OperatorSession {
   public:
    OperatorSession(std::shared_ptr<Device> device, const OperatorRegistry* registry)
        : device_(std::move(device)), registry_(registry) {}
    ~OperatorSession() { static_cast<void>(Finalise()); }

    Result Initialise();
    Result Allocate(MemoryType type, uint64_t bytes, std::shared_ptr<Buffer>* buffer);
    // `operands` in the order of the kernel's arguments, without the workspace.
    Result ComputeAsync(const std::string& name, const AscendProblem& problem,
                        std::vector<std::shared_ptr<Buffer>> operands,
                        std::shared_ptr<Completion>* completion);
    // Waits for all work; afterwards only Initialise is allowed. The first error of work that
    // nobody waited for is its result.
    Result Finalise();
    StreamHandle stream() const { return stream_->handle(); }

   private:
    void DropFinished();
    void WaitForFirst();

    std::shared_ptr<Device> device_;
    const OperatorRegistry* registry_;
    std::mutex mutex_;
    std::shared_ptr<Stream> stream_;
    std::shared_ptr<MemoryPool> pool_;
    std::deque<std::shared_ptr<Completion>> under_way_;
    Result unheard_;  // the first error of work whose completion nobody kept
};

}  // namespace ascend_ops
