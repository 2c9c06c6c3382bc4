// The checked build's observer: bounds, initialisation, lifetime and order of every access.
//
// Order: each pipe has a vector clock; SetFlag/WaitFlag and the queues carry clocks between
// pipes (Lamport 1978; Mattern 1989). An access is in order when the pipe's clock covers the last
// conflicting access to the same 32-byte block. A cube core and the vector cores of its block order
// their accesses to global memory by cross-core flags, which carry the cube core's clock.
#pragma once

#include <array>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpusim/arch.h"
#include "cpusim/local_memory.h"

namespace cpusim {

using AscendC::TPosition;

inline constexpr int kPipeCount = 8;

// How far each pipe has come, and the estimated cycle at which that was.
struct Clock {
    std::array<uint32_t, kPipeCount> ticks{};
    double cycles = 0;
    uint32_t& operator[](int pipe) { return ticks[static_cast<size_t>(pipe)]; }
    uint32_t operator[](int pipe) const { return ticks[static_cast<size_t>(pipe)]; }
};

// What a core is estimated to take: when its last pipe is done, and how long each pipe works.
struct CycleEstimate {
    double total = 0;
    std::array<double, kPipeCount> busy{};
};

// A rule of the hardware that a kernel broke; the text names operator, core, tile and address.
class Violation : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A range of global memory that a core touched; used to find cores in each other's way.
struct GlobalAccess {
    enum class Kind : uint8_t { kRead, kWrite, kAtomic };
    const uint8_t* begin;
    const uint8_t* end;
    int64_t core;
    Kind kind;
    const char* instruction;
    pipe_t pipe;
    uint32_t time;  // of the access on its pipe
    int64_t block;  // a cube core and its vector cores make a block
    bool is_cube;
    int64_t tile;  // of the core, when it touched the range first
};

// Which core the checker watches.
struct CoreName {
    int64_t index = 0;
    int64_t block = 0;
    bool is_cube = false;
    int64_t sub_block = 0;  // which vector core of its block
};

// What a block's cube core has told its vector cores, and what it wrote to global memory.
struct BlockHistory {
    static constexpr int kFlags = 16;
    static constexpr int kVectorCores = 2;
    std::array<std::array<std::deque<Clock>, kFlags>, kVectorCores> told;
    std::vector<GlobalAccess> cube_writes;
};

class Checker {
   public:
    // Forgets everything and starts to watch a core. `global` lists (begin, bytes) of what the
    // kernel may touch in global memory; `block` outlives the core.
    void Start(const char* operator_name, CoreName core, const uint8_t* memory,
               std::vector<std::pair<const uint8_t*, uint64_t>> global, BlockHistory* block);

    void Read(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction);
    void Write(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction);
    // An access that may move bytes that nothing has written, as loads of whole fractals do; what
    // they carry is marked by CopyInitialised.
    void ReadUnsure(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction);
    bool IsInitialised(const void* address, uint64_t bytes) const;
    void MarkUninitialised(const void* address, uint64_t bytes);
    void Global(GlobalAccess::Kind kind, pipe_t pipe, const void* address, uint64_t bytes,
                const char* instruction);
    [[noreturn]] void Fail(const char* instruction, const std::string& rule,
                           const void* address) const;

    // A buffer becomes usable with undefined contents, or stops being usable.
    void Map(const void* address, uint64_t bytes);
    void Unmap(const void* address, uint64_t bytes);

    Clock After(pipe_t pipe);                      // the clock once all of `pipe` so far is done
    void Order(pipe_t pipe, const Clock& clock);   // `pipe` goes on only after `clock`
    void OrderAll();                               // every pipe waits for every other
    void CountTile() { ++tile_; }
    // An instruction occupies `pipe` for so many cycles, from when its operands are there.
    void Spend(pipe_t pipe, double cycles);
    CycleEstimate Estimate() const;
    // Event flags that were set and not yet waited for, by (event, id).
    void SetFlag(int event, int id, pipe_t source);
    void WaitFlag(int event, int id, pipe_t destination);
    // The tensors that the queues of a position have given out and not got back.
    void TakeTensor(TPosition position, const void* address);
    void FreeTensor(TPosition position) { --taken_[static_cast<int>(position)]; }
    void CountBuffers(int count, const void* address);  // of InitBuffer
    // A product so small that the next one on the same result needs a barrier before it.
    void AddProduct(const void* result, bool small, bool accumulates);
    void SettleProducts() { small_product_ = nullptr; }
    void SetCrossFlag(bool is_cube, int id, pipe_t pipe);
    void WaitCrossFlag(bool is_cube, int id);
    // At the end of a kernel: refuses pending flags, also of a vector core's cube core, tensors that
    // are not freed and an atomic mode left on, and gives what the core touched in global memory.
    std::vector<GlobalAccess> Finish(bool atomic_left_on);

   private:
    struct Block {  // shadow of 32 bytes
        uint32_t initialised = 0;  // one bit a byte
        bool mapped = false;
        int8_t writer = -1;
        uint32_t write_time = 0;
        std::array<uint32_t, kPipeCount> read_time{};
    };
    // The time of a new instruction on `pipe`. The scalar pipe issues it, so that it comes after
    // all that the scalar pipe did.
    uint32_t Issue(pipe_t pipe);
    uint64_t Locate(const void* address, uint64_t bytes, const char* instruction) const;
    void RequireReach(pipe_t pipe, uint64_t offset, const char* instruction,
                      const void* address) const;
    void RequireFlagsWaited() const;
    void RequireCubeSeen(const uint8_t* begin, uint64_t bytes, const char* instruction) const;
    Block& BlockAt(uint64_t offset);
    const Block* FindBlock(uint64_t offset) const;
    void ReadBlocks(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction,
                    bool may_be_unwritten);
    void RequireWriteSeen(const Block& block, pipe_t pipe, const char* instruction,
                          const void* address) const;

    std::string operator_name_;
    CoreName core_;
    BlockHistory* block_ = nullptr;
    Clock cube_seen_;  // what this vector core knows of its cube core
    const void* small_product_ = nullptr;
    int64_t tile_ = -1;
    std::array<int, static_cast<int>(TPosition::MAX)> taken_{};
    int buffers_ = 0;
    std::vector<GlobalAccess> accesses_;
    const uint8_t* memory_ = nullptr;
    std::vector<std::pair<const uint8_t*, uint64_t>> global_;
    // By region; empty until a buffer is mapped there, as most kernels use one region only.
    std::array<std::vector<Block>, kRegionCount> blocks_;
    std::array<Clock, kPipeCount> clocks_{};
    std::array<double, kPipeCount> busy_{};
    struct Flag {
        int event;
        int id;
        Clock clock;
    };
    std::vector<Flag> flags_;
};

// Throws Violation when two cores touched the same bytes, one of them writing, and not both by atomic
// adds: nothing orders cores among each other.
void RequireCoresApart(const char* operator_name, std::vector<GlobalAccess> accesses);

}  // namespace cpusim
