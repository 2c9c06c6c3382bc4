// TPipe, TQue and TBuf: who owns which part of the Unified Buffer, and which pipe waits for which.
//
// EnQue tells the consumer that the producer is done, FreeTensor tells the producer that the
// consumer is done; DeQue and AllocTensor wait for them. On one host thread the wait is over at
// once, so the fast build only hands out addresses; the checked build carries the clocks.
#pragma once

#include "cpusim/tensor.h"

namespace AscendC {

class TPipe;

namespace detail {

struct PipePair {
    pipe_t producer;
    pipe_t consumer;
};

constexpr PipePair PipesOf(TPosition position) {
    switch (position) {
        case TPosition::VECIN: return {PIPE_MTE2, PIPE_V};
        case TPosition::VECOUT: return {PIPE_V, PIPE_MTE3};
        case TPosition::A1: case TPosition::B1: case TPosition::C1: return {PIPE_MTE2, PIPE_MTE1};
        case TPosition::A2: case TPosition::B2: case TPosition::C2: return {PIPE_MTE1, PIPE_M};
        case TPosition::CO1: return {PIPE_M, PIPE_FIX};
        default: return {PIPE_V, PIPE_V};
    }
}

// Positions that a queue can stand at. On a SoC whose cube unit the emulator lacks, only those of
// the vector unit.
constexpr bool IsQueuePosition(TPosition position) {
    const bool of_cube_unit = cpusim::RegionOf(position) != cpusim::Region::kUnifiedBuffer;
    return position == TPosition::VECIN || position == TPosition::VECOUT ||
           (cpusim::kHasCubeUnit && of_cube_unit);
}

// Positions that a tile enters the core at.
constexpr bool IsEntry(TPosition position) {
    return position == TPosition::VECIN || position == TPosition::A1;
}

inline constexpr int kQueueBuffers = 16;

struct QueueBuffer {
    uint8_t* address = nullptr;
    enum class State : uint8_t { kFree, kTaken, kQueued, kDequeued } state = State::kFree;
#if CPUSIM_CHECKED
    cpusim::Clock clock{};
#endif
};

}  // namespace detail

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
    static_assert(depth > 0 && depth <= detail::kQueueBuffers, "cpusim: depth is from 1 to 16");
    static_assert(detail::IsQueuePosition(src),
                  "cpusim: this SoC has no queue at that position; for scratch use TBuf<VECCALC>");
    static constexpr detail::PipePair kPipes = detail::PipesOf(src);
    using State = detail::QueueBuffer::State;

   public:
    static constexpr cpusim::Region kRegion = cpusim::RegionOf(src);

    template <typename T>
    LocalTensor<T> AllocTensor() {
        detail::QueueBuffer& buffer = Take(State::kFree, next_alloc_, "AllocTensor",
                                           "no buffer is free: FreeTensor is missing");
        buffer.state = State::kTaken;
#if CPUSIM_CHECKED
        auto& checker = cpusim::ThisCore().checker;
        if (detail::IsEntry(src) && this == first_queue_) checker.CountTile();
        checker.Order(kPipes.producer, buffer.clock);
        checker.Map(buffer.address, bytes_);
        checker.TakeTensor(src, buffer.address);
#endif
        return Tensor<T>(buffer);
    }

    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor) {
        detail::QueueBuffer& buffer = Find(tensor.Bytes(), "EnQue");
        cpusim::Require(buffer.state == State::kTaken, "EnQue", "the tensor is not taken",
                        buffer.address);
        cpusim::Require(queued_ < depth, "EnQue", "the queue is deeper than its depth",
                        buffer.address);
        buffer.state = State::kQueued;
        order_[(head_ + queued_) % detail::kQueueBuffers] = static_cast<uint8_t>(&buffer - buffers_);
        ++queued_;
#if CPUSIM_CHECKED
        buffer.clock = cpusim::ThisCore().checker.After(kPipes.producer);
#endif
        return true;
    }

    template <typename T>
    LocalTensor<T> DeQue() {
        cpusim::Require(queued_ > 0, "DeQue", "the queue is empty: EnQue is missing, and the core "
                        "would hang", buffers_[0].address);
        detail::QueueBuffer& buffer = buffers_[order_[head_]];
        head_ = (head_ + 1) % detail::kQueueBuffers;
        --queued_;
        buffer.state = State::kDequeued;
#if CPUSIM_CHECKED
        cpusim::ThisCore().checker.Order(kPipes.consumer, buffer.clock);
#endif
        return Tensor<T>(buffer);
    }

    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor) {
        detail::QueueBuffer& buffer = Find(tensor.Bytes(), "FreeTensor");
        cpusim::Require(buffer.state == State::kTaken || buffer.state == State::kDequeued,
                        "FreeTensor", "the tensor is free already or still queued",
                        buffer.address);
        buffer.state = State::kFree;
#if CPUSIM_CHECKED
        auto& checker = cpusim::ThisCore().checker;
        buffer.clock = checker.After(kPipes.consumer);
        checker.Unmap(buffer.address, bytes_);
        checker.FreeTensor(src);
#endif
    }

    bool HasTensorInQue() const { return queued_ > 0; }
    int32_t GetTensorCountInQue() const { return queued_; }

   private:
    friend class TPipe;

    void Start(uint8_t* address, uint32_t count, uint32_t bytes, const void* first_queue) {
        count_ = count;
        bytes_ = bytes;
        first_queue_ = first_queue;
        for (uint32_t i = 0; i < count; ++i) buffers_[i].address = address + i * bytes;
    }
    detail::QueueBuffer& Take(State wanted, uint32_t& next, const char* instruction,
                              const char* rule) {
        detail::QueueBuffer& buffer = buffers_[next];
        cpusim::Require(count_ > 0, instruction, "InitBuffer is missing", nullptr);
        cpusim::Require(buffer.state == wanted, instruction, rule, buffer.address);
        next = next + 1 == count_ ? 0 : next + 1;
        return buffer;
    }
    detail::QueueBuffer& Find(const uint8_t* address, const char* instruction) {
        for (uint32_t i = 0; i < count_; ++i) {
            if (buffers_[i].address == address) return buffers_[i];
        }
        cpusim::Require(false, instruction, "the tensor does not come from this queue", address);
        return buffers_[0];
    }
    template <typename T>
    LocalTensor<T> Tensor(const detail::QueueBuffer& buffer) const {
        return LocalTensor<T>::At(buffer.address, bytes_ / sizeof(T));
    }

    detail::QueueBuffer buffers_[detail::kQueueBuffers];
    uint8_t order_[detail::kQueueBuffers] = {};
    const void* first_queue_ = nullptr;
    uint32_t count_ = 0;
    uint32_t bytes_ = 0;
    uint32_t next_alloc_ = 0;
    int32_t queued_ = 0;
    uint32_t head_ = 0;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<pos, pos, depth, mask> {};

// Scratch memory without a queue: only one pipe uses it, or the kernel sets flags itself.
template <TPosition pos = TPosition::LCM>
class TBuf {
   public:
    template <typename T>
    LocalTensor<T> Get() {
        return Get<T>(bytes_ / sizeof(T));
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t len) {
        cpusim::Require(len * sizeof(T) <= bytes_, "TBuf::Get", "asks for more than InitBuffer got",
                        address_);
        return LocalTensor<T>::At(address_, len);
    }

   private:
    friend class TPipe;
    uint8_t* address_ = nullptr;
    uint32_t bytes_ = 0;
};

class TPipe {
   public:
    // Gives `num` buffers of `len` bytes to a queue. False, and nothing given, when the Unified
    // Buffer is too small; the checked build refuses it.
    template <class T>
    bool InitBuffer(T& que, uint8_t num, uint32_t len) {
        const auto bytes = static_cast<uint32_t>(cpusim::RoundUp(len, cpusim::kBlockBytes));
        uint8_t* address = Take(T::kRegion, uint64_t{num} * bytes);
        if (address == nullptr || num > detail::kQueueBuffers) return false;
#if CPUSIM_CHECKED
        cpusim::ThisCore().checker.CountBuffers(num, address);
#endif
        if (first_queue_ == nullptr) first_queue_ = &que;
        que.Start(address, num, bytes, first_queue_);
        return true;
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos>& buf, uint32_t len) {
        const auto bytes = static_cast<uint32_t>(cpusim::RoundUp(len, cpusim::kBlockBytes));
        uint8_t* address = Take(cpusim::RegionOf(pos), bytes);
        if (address == nullptr) return false;
        buf.address_ = address;
        buf.bytes_ = bytes;
#if CPUSIM_CHECKED
        cpusim::ThisCore().checker.CountBuffers(1, address);
        cpusim::ThisCore().checker.Map(address, bytes);
#endif
        return true;
    }

    // An event id for the pair of pipes that nobody else uses. The emulator's flags are checked
    // one by one, so that one id a pair of pipes is enough.
    TEventID FetchEventID(HardEvent evt) { return static_cast<TEventID>(evt) % 8; }

   private:
    uint8_t* Take(cpusim::Region region, uint64_t bytes) {
        cpusim::Core& core = cpusim::ThisCore();
        const int number = static_cast<int>(region);
        uint32_t& used = core.used[number];
        uint8_t* address = core.memory + cpusim::RegionOffset(number) + used;
        const bool vector = region == cpusim::Region::kUnifiedBuffer;
        cpusim::Require(vector != core.is_cube, "InitBuffer",
                        vector ? "a cube core has no Unified Buffer"
                               : "a vector core has no L1, L0 or bias table", address);
        const bool fits = used + bytes <= cpusim::kRegionBytes[number];
        cpusim::Require(fits, "InitBuffer",
                        vector ? "the buffers do not fit the Unified Buffer"
                               : "the buffers do not fit this memory of the cube core", address);
        if (!fits) return nullptr;
        used += static_cast<uint32_t>(bytes);
        return address;
    }
    const void* first_queue_ = nullptr;
};

}  // namespace AscendC
