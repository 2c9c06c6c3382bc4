#include "cpusim_device.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

namespace ascend_ops {
namespace {

constexpr uint64_t kAlignment = 512;  // that of aclrtMalloc

// Work in a stream: it may set the stream's error, or take it away.
using Task = std::function<void(Result& error)>;

// A thread that runs its tasks in order and keeps the first error until somebody asks.
class CpusimStream {
   public:
    CpusimStream() : thread_([this] { Run(); }) {}
    ~CpusimStream() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            closing_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    // Queues work whose error is the stream's unless there is one already.
    void Push(std::function<Result()> work) {
        PushTask([work = std::move(work)](Result& error) {
            Result result = work();
            if (error.ok()) error = std::move(result);
        });
    }
    void PushTask(Task task) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        changed_.notify_all();
    }
    Result Drain() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
        return std::exchange(error_, Result());
    }

   private:
    void Run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            Task task = std::move(tasks_.front());
            tasks_.pop_front();
            busy_ = true;
            Result error = std::exchange(error_, Result());
            lock.unlock();
            task(error);
            task = nullptr;  // what it captured is released before the stream counts as idle
            lock.lock();
            error_ = std::move(error);
            busy_ = false;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    bool busy_ = false;
    bool closing_ = false;
    Result error_;
    std::thread thread_;  // last: it uses all the others
};

// Counts how often the event was recorded and how often that point was reached; has the error of
// the work between the stream's previous event and that point.
struct EventState {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;
    uint64_t reached = 0;
    Result error;

    void Reach(uint64_t generation, Result failure) {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            error = std::move(failure);
            if (generation > reached) reached = generation;
        }
        changed.notify_all();
    }
    Result Await(uint64_t generation) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return reached >= generation; });
        return error;
    }
    uint64_t Recorded() {
        const std::lock_guard<std::mutex> lock(mutex);
        return recorded;
    }
};

using SharedEvent = std::shared_ptr<EventState>;

CpusimStream& StreamOf(StreamHandle handle) { return *static_cast<CpusimStream*>(handle); }
const SharedEvent& EventOf(EventHandle handle) { return *static_cast<SharedEvent*>(handle); }

void Spend(double nanoseconds) {
    if (nanoseconds <= 0) return;
    std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds)));
}

}  // namespace

Result CpusimDevice::Allocate(MemoryType type, uint64_t bytes, void** memory) {
    const uint64_t rounded = (bytes / kAlignment + 1) * kAlignment;
    void* block = std::aligned_alloc(kAlignment, rounded);
    if (block == nullptr) {
        return {ASCEND_INVALID, "cpusim: no memory for " + std::to_string(bytes) + " bytes"};
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    live_[static_cast<const uint8_t*>(block)] = {type, bytes};
    *memory = block;
    return {};
}

Result CpusimDevice::Free(MemoryType type, void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(static_cast<const uint8_t*>(memory));
    if (found == live_.end() || found->second.type != type) {
        return {ASCEND_INVALID, "cpusim: Free of memory that is not allocated, or not of that type"};
    }
    live_.erase(found);
    std::free(memory);
    return {};
}

uint64_t CpusimDevice::live_allocations() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.size();
}

Result CpusimDevice::RequireLive(MemoryType type, const void* memory, uint64_t bytes,
                                 const char* what) const {
    const auto* begin = static_cast<const uint8_t*>(memory);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto after = live_.upper_bound(begin);
    if (after != live_.begin()) {
        const auto& [start, allocation] = *std::prev(after);
        if (allocation.type == type && begin + bytes <= start + allocation.bytes) return {};
    }
    return {ASCEND_INVALID,
            std::string("cpusim: ") + what +
                (type == MemoryType::kDevice ? " is not live device memory of this size"
                                             : " is not live page-locked memory of this size") +
                "; it may have been freed while the work was queued"};
}

Result CpusimDevice::CreateStream(StreamHandle* stream) {
    *stream = new CpusimStream;
    return {};
}

Result CpusimDevice::DestroyStream(StreamHandle stream) {
    Result result = StreamOf(stream).Drain();
    delete static_cast<CpusimStream*>(stream);
    return result;
}

Result CpusimDevice::Synchronize(StreamHandle stream) { return StreamOf(stream).Drain(); }

Result CpusimDevice::CreateEvent(EventHandle* event) {
    *event = new SharedEvent(std::make_shared<EventState>());
    return {};
}

Result CpusimDevice::DestroyEvent(EventHandle event) {
    delete static_cast<SharedEvent*>(event);  // queued work has its own share
    return {};
}

Result CpusimDevice::Record(EventHandle event, StreamHandle stream) {
    const SharedEvent state = EventOf(event);
    uint64_t generation;
    {
        const std::lock_guard<std::mutex> lock(state->mutex);
        generation = ++state->recorded;
    }
    StreamOf(stream).PushTask([state, generation](Result& error) {
        state->Reach(generation, std::exchange(error, Result()));
    });
    return {};
}

Result CpusimDevice::WaitEvent(StreamHandle stream, EventHandle event) {
    const SharedEvent state = EventOf(event);
    const uint64_t generation = state->Recorded();
    if (generation == 0) {
        return {ASCEND_INVALID, "cpusim: a stream waits for an event that was never recorded"};
    }
    StreamOf(stream).Push([state, generation] { return state->Await(generation); });
    return {};
}

Result CpusimDevice::SynchronizeEvent(EventHandle event) {
    return EventOf(event)->Await(EventOf(event)->Recorded());
}

Result CpusimDevice::QueryEvent(EventHandle event, bool* done) {
    EventState& state = *EventOf(event);
    const std::lock_guard<std::mutex> lock(state.mutex);
    *done = state.reached >= state.recorded;
    return {};
}

Result CpusimDevice::Copy(void* destination, const void* source, uint64_t bytes, CopyKind kind,
                          StreamHandle stream) {
    const auto side = [](bool host) { return host ? MemoryType::kPinnedHost : MemoryType::kDevice; };
    const MemoryType to = side(kind == CopyKind::kDeviceToHost);
    const MemoryType from = side(kind == CopyKind::kHostToDevice);
    StreamOf(stream).Push([=] {
        Result result = RequireLive(to, destination, bytes, "the destination of a copy");
        if (result.ok()) result = RequireLive(from, source, bytes, "the source of a copy");
        if (!result.ok()) return result;
        Spend(options_.copy_ns_a_byte * static_cast<double>(bytes));
        std::memcpy(destination, source, bytes);
        return Result();
    });
    return {};
}

Result CpusimDevice::Launch(const AscendOperator* op, const AscendProblem& problem,
                            const AscendPlan& plan, std::vector<AscendTensor> tensors,
                            StreamHandle stream) {
    StreamOf(stream).Push([=, tensors = std::move(tensors)] {
        for (const AscendTensor& tensor : tensors) {
            if (tensor.bytes == 0) continue;
            Result live = RequireLive(MemoryType::kDevice, tensor.data, tensor.bytes, op->name);
            if (!live.ok()) return live;
        }
        Spend(options_.launch_ns);
        AscendError error{};
        const int code = op->run(&problem, &plan, tensors.data(), 0, plan.core_count, &error);
        return code == ASCEND_OK ? Result() : Result(code, error.text);
    });
    return {};
}

}  // namespace ascend_ops
