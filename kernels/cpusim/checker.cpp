#include "cpusim/checker.h"

#include <algorithm>
#include <cstdio>

namespace cpusim {
namespace {

const char* PipeName(int pipe) {
    static const char* const names[kPipeCount] = {"S",    "V",    "M",   "MTE1",
                                                  "MTE2", "MTE3", "ALL", "FIX"};
    return names[pipe];
}

// Bits of the bytes [begin, end) of a 32-byte block.
uint32_t ByteMask(uint64_t begin, uint64_t end) {
    const uint64_t ones = ((uint64_t{1} << (end - begin)) - 1) << begin;
    return static_cast<uint32_t>(ones);
}

}  // namespace

void Checker::Start(const char* operator_name, int64_t core, const uint8_t* unified_buffer,
                    std::vector<std::pair<const uint8_t*, uint64_t>> global) {
    operator_name_ = operator_name;
    core_ = core;
    tile_ = -1;
    taken_ = {};
    buffers_ = 0;
    accesses_.clear();
    unified_buffer_ = unified_buffer;
    global_ = std::move(global);
    blocks_.assign(kUnifiedBufferBytes / kBlockBytes, Block{});
    clocks_ = {};
    busy_ = {};
    flags_.clear();
}

void Checker::Fail(const char* instruction, const std::string& rule, const void* address) const {
    const auto* byte = static_cast<const uint8_t*>(address);
    char place[64];
    if (byte >= unified_buffer_ && byte < unified_buffer_ + kUnifiedBufferBytes) {
        std::snprintf(place, sizeof place, "UB+0x%lx",
                      static_cast<unsigned long>(byte - unified_buffer_));
    } else {
        std::snprintf(place, sizeof place, "address %p", address);
    }
    throw Violation(operator_name_ + ": core " + std::to_string(core_) + ", tile " +
                    std::to_string(tile_) + ", " + place + ": " + instruction + ": " + rule);
}

uint32_t Checker::Issue(pipe_t pipe) {
    if (pipe != PIPE_S) Order(pipe, clocks_[PIPE_S]);
    return ++clocks_[pipe][pipe];
}

uint64_t Checker::Locate(const void* address, uint64_t bytes, const char* instruction) const {
    const auto* byte = static_cast<const uint8_t*>(address);
    if (byte < unified_buffer_ || byte + bytes > unified_buffer_ + kUnifiedBufferBytes) {
        Fail(instruction, "access outside the Unified Buffer", address);
    }
    return static_cast<uint64_t>(byte - unified_buffer_);
}

void Checker::RequireWriteSeen(const Block& block, pipe_t pipe, const char* instruction,
                               const void* address) const {
    if (block.writer >= 0 && block.writer != pipe &&
        clocks_[pipe][block.writer] < block.write_time) {
        Fail(instruction,
             std::string("pipe ") + PipeName(pipe) + " does not wait for pipe " +
                 PipeName(block.writer) + ", which wrote here: EnQue and DeQue, or SetFlag and "
                 "WaitFlag, are missing between them",
             address);
    }
}

void Checker::Read(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction) {
    const uint64_t begin = Locate(address, bytes, instruction);
    const uint32_t now = Issue(pipe);
    for (uint64_t at = begin; at < begin + bytes;) {
        const uint64_t block_begin = at / kBlockBytes * kBlockBytes;
        const uint64_t end = std::min(block_begin + kBlockBytes, begin + bytes);
        Block& block = blocks_[at / kBlockBytes];
        const void* here = unified_buffer_ + at;
        if (!block.mapped) Fail(instruction, "reads a buffer that is not allocated", here);
        RequireWriteSeen(block, pipe, instruction, here);
        const uint32_t wanted = ByteMask(at - block_begin, end - block_begin);
        if ((block.initialised & wanted) != wanted) {
            Fail(instruction, "reads bytes that nothing has written", here);
        }
        block.read_time[pipe] = now;
        at = end;
    }
}

void Checker::Write(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction) {
    const uint64_t begin = Locate(address, bytes, instruction);
    const uint32_t now = Issue(pipe);
    for (uint64_t at = begin; at < begin + bytes;) {
        const uint64_t block_begin = at / kBlockBytes * kBlockBytes;
        const uint64_t end = std::min(block_begin + kBlockBytes, begin + bytes);
        Block& block = blocks_[at / kBlockBytes];
        const void* here = unified_buffer_ + at;
        if (!block.mapped) Fail(instruction, "writes a buffer that is not allocated", here);
        RequireWriteSeen(block, pipe, instruction, here);
        for (int reader = 0; reader < kPipeCount; ++reader) {
            if (reader != pipe && clocks_[pipe][reader] < block.read_time[reader]) {
                Fail(instruction,
                     std::string("pipe ") + PipeName(pipe) + " overwrites what pipe " +
                         PipeName(reader) + " may still read: FreeTensor and AllocTensor, or "
                         "SetFlag and WaitFlag, are missing between them",
                     here);
            }
        }
        block.writer = static_cast<int8_t>(pipe);
        block.write_time = now;
        block.initialised |= ByteMask(at - block_begin, end - block_begin);
        at = end;
    }
}

void Checker::Global(GlobalAccess::Kind kind, const void* address, uint64_t bytes,
                     const char* instruction) {
    const auto* begin = static_cast<const uint8_t*>(address);
    for (const auto& [start, size] : global_) {
        if (begin < start || begin + bytes > start + size) continue;
        if (!accesses_.empty() && accesses_.back().end == begin && accesses_.back().kind == kind) {
            accesses_.back().end += bytes;
        } else {
            accesses_.push_back({begin, begin + bytes, core_, kind, instruction});
        }
        return;
    }
    for (const auto& [start, size] : global_) {
        if (begin >= start && begin <= start + size) {
            Fail(instruction,
                 "access of " + std::to_string(bytes) + " bytes at byte " +
                     std::to_string(begin - start) + " of a global buffer of " +
                     std::to_string(size) + " bytes",
                 address);
        }
    }
    Fail(instruction, "access outside every global buffer of this launch", address);
}

void Checker::Map(const void* address, uint64_t bytes) {
    const uint64_t begin = Locate(address, bytes, "InitBuffer");
    for (uint64_t at = begin; at < begin + bytes; at += kBlockBytes) {
        blocks_[at / kBlockBytes].mapped = true;
        blocks_[at / kBlockBytes].initialised = 0;
    }
}

void Checker::Unmap(const void* address, uint64_t bytes) {
    const uint64_t begin = Locate(address, bytes, "FreeTensor");
    for (uint64_t at = begin; at < begin + bytes; at += kBlockBytes) {
        blocks_[at / kBlockBytes].mapped = false;
    }
}

void Checker::Spend(pipe_t pipe, double cycles) {
    if (pipe != PIPE_S) Order(pipe, clocks_[PIPE_S]);
    clocks_[pipe].cycles += cycles;
    busy_[pipe] += cycles;
}

CycleEstimate Checker::Estimate() const {
    CycleEstimate estimate;
    estimate.busy = busy_;
    for (const Clock& clock : clocks_) estimate.total = std::max(estimate.total, clock.cycles);
    return estimate;
}

Clock Checker::After(pipe_t pipe) {
    return clocks_[pipe];
}

void Checker::Order(pipe_t pipe, const Clock& clock) {
    for (int other = 0; other < kPipeCount; ++other) {
        clocks_[pipe][other] = std::max(clocks_[pipe][other], clock[other]);
    }
    clocks_[pipe].cycles = std::max(clocks_[pipe].cycles, clock.cycles);
}

void Checker::OrderAll() {
    for (int pipe = 1; pipe < kPipeCount; ++pipe) Order(PIPE_S, clocks_[pipe]);
    for (int pipe = 1; pipe < kPipeCount; ++pipe) clocks_[pipe] = clocks_[0];
}

void Checker::TakeTensor(TPosition position, const void* address) {
    int& taken = taken_[static_cast<int>(position)];
    if (++taken > kTakenTensors) {
        Fail("AllocTensor", "the queues of one position may have " + std::to_string(kTakenTensors) +
             " tensors taken at once, each holds a hardware event", address);
    }
}

void Checker::CountBuffers(int count, const void* address) {
    buffers_ += count;
    if (buffers_ > kBuffersOfAKernel) {
        Fail("InitBuffer", "a kernel may have " + std::to_string(kBuffersOfAKernel) +
             " buffers in all", address);
    }
}

void Checker::SetFlag(int event, int id, pipe_t source) {
    if (id < 0 || id >= kEventIds) {
        Fail("SetFlag", "event ids are 0 to 7, not " + std::to_string(id), nullptr);
    }
    for (const Flag& flag : flags_) {
        if (flag.event == event && flag.id == id) {
            Fail("SetFlag", "event " + std::to_string(id) + " is set twice without a WaitFlag",
                 nullptr);
        }
    }
    flags_.push_back({event, id, clocks_[source]});
}

void Checker::WaitFlag(int event, int id, pipe_t destination) {
    for (auto flag = flags_.begin(); flag != flags_.end(); ++flag) {
        if (flag->event != event || flag->id != id) continue;
        Order(destination, flag->clock);
        flags_.erase(flag);
        return;
    }
    Fail("WaitFlag", "event " + std::to_string(id) + " was never set: the core would hang",
         nullptr);
}

std::vector<GlobalAccess> Checker::Finish(bool atomic_left_on) {
    if (!flags_.empty()) {
        Fail("end of kernel", "event " + std::to_string(flags_.front().id) +
             " was set and never waited for: the next kernel would see it", nullptr);
    }
    for (const int taken : taken_) {
        if (taken == 0) continue;
        Fail("end of kernel", std::to_string(taken) +
             " tensors were taken by AllocTensor and never freed: FreeTensor is missing", nullptr);
    }
    if (atomic_left_on) {
        Fail("end of kernel", "SetAtomicNone is missing: the next kernel's stores would add",
             nullptr);
    }
    return std::move(accesses_);
}

void RequireCoresApart(const char* operator_name, std::vector<GlobalAccess> accesses) {
    using Kind = GlobalAccess::Kind;
    std::sort(accesses.begin(), accesses.end(),
              [](const GlobalAccess& a, const GlobalAccess& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < accesses.size(); ++i) {
        const GlobalAccess& one = accesses[i];
        for (size_t j = i + 1; j < accesses.size() && accesses[j].begin < one.end; ++j) {
            const GlobalAccess& other = accesses[j];
            const bool same_kind = one.kind == other.kind && one.kind != Kind::kWrite;
            if (one.core == other.core || same_kind) continue;
            char place[32];
            std::snprintf(place, sizeof place, "%p", static_cast<const void*>(other.begin));
            throw Violation(std::string(operator_name) + ": core " + std::to_string(one.core) +
                            " and core " + std::to_string(other.core) + ", address " + place +
                            ": " + one.instruction + " and " + other.instruction +
                            " touch the same bytes of global memory, and nothing orders them");
        }
    }
}

}  // namespace cpusim
