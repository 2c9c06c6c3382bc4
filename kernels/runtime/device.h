// The few calls that the runtime needs of a device; implemented by AscendCL and by cpusim.
//
// Streams are queues: what one stream was given runs in order, streams run side by side, and
// events order them. An error of queued work is told by the next event of its stream, to whoever
// waits for that, or by the next Synchronize of the stream.
// Every call may be made from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ascend_abi.h"
#include "result.h"

namespace ascend_ops {

enum class MemoryType { kDevice, kPinnedHost };
enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

using StreamHandle = void*;
using EventHandle = void*;

class Device {
   public:
    virtual ~Device() = default;

    virtual Result Allocate(MemoryType type, uint64_t bytes, void** memory) = 0;
    virtual Result Free(MemoryType type, void* memory) = 0;

    virtual Result CreateStream(StreamHandle* stream) = 0;
    virtual Result DestroyStream(StreamHandle stream) = 0;  // finishes what is queued
    virtual Result Synchronize(StreamHandle stream) = 0;

    virtual Result CreateEvent(EventHandle* event) = 0;
    virtual Result DestroyEvent(EventHandle event) = 0;
    virtual Result Record(EventHandle event, StreamHandle stream) = 0;
    virtual Result WaitEvent(StreamHandle stream, EventHandle event) = 0;
    virtual Result SynchronizeEvent(EventHandle event) = 0;
    virtual Result QueryEvent(EventHandle event, bool* done) = 0;

    // Queues a copy; the host side must be page-locked memory of this device.
    virtual Result Copy(void* destination, const void* source, uint64_t bytes, CopyKind kind,
                        StreamHandle stream) = 0;
    // Queues a kernel; `tensors` are device memory, the workspace last.
    virtual Result Launch(const AscendOperator* op, const AscendProblem& problem,
                          const AscendPlan& plan, std::vector<AscendTensor> tensors,
                          StreamHandle stream) = 0;
};

// Device memory that is given back when its last owner lets go of it.
class Buffer {
   public:
    static Result Create(std::shared_ptr<Device> device, MemoryType type, uint64_t bytes,
                         std::shared_ptr<Buffer>* buffer) {
        void* memory = nullptr;
        Result result = device->Allocate(type, bytes, &memory);
        if (result.ok()) buffer->reset(new Buffer(std::move(device), type, bytes, memory));
        return result;
    }
    ~Buffer() { static_cast<void>(device_->Free(type_, memory_)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data() const { return memory_; }
    uint64_t bytes() const { return bytes_; }
    AscendTensor tensor() const { return {memory_, bytes_}; }

   private:
    Buffer(std::shared_ptr<Device> device, MemoryType type, uint64_t bytes, void* memory)
        : device_(std::move(device)), type_(type), bytes_(bytes), memory_(memory) {}
    std::shared_ptr<Device> device_;
    MemoryType type_;
    uint64_t bytes_;
    void* memory_;
};

// A stream or an event with the life of its owner.
class Stream {
   public:
    static Result Create(std::shared_ptr<Device> device, std::unique_ptr<Stream>* stream) {
        StreamHandle handle = nullptr;
        Result result = device->CreateStream(&handle);
        if (result.ok()) stream->reset(new Stream(std::move(device), handle));
        return result;
    }
    ~Stream() { static_cast<void>(device_->DestroyStream(handle_)); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    StreamHandle handle() const { return handle_; }

   private:
    Stream(std::shared_ptr<Device> device, StreamHandle handle)
        : device_(std::move(device)), handle_(handle) {}
    std::shared_ptr<Device> device_;
    StreamHandle handle_;
};

class Event {
   public:
    static Result Create(std::shared_ptr<Device> device, std::unique_ptr<Event>* event) {
        EventHandle handle = nullptr;
        Result result = device->CreateEvent(&handle);
        if (result.ok()) event->reset(new Event(std::move(device), handle));
        return result;
    }
    ~Event() { static_cast<void>(device_->DestroyEvent(handle_)); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    EventHandle handle() const { return handle_; }

   private:
    Event(std::shared_ptr<Device> device, EventHandle handle)
        : device_(std::move(device)), handle_(handle) {}
    std::shared_ptr<Device> device_;
    EventHandle handle_;
};

}  // namespace ascend_ops
