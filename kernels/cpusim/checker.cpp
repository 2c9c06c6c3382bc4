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

void Checker::Start(const char* operator_name, CoreName core, const uint8_t* memory,
                    std::vector<std::pair<const uint8_t*, uint64_t>> global,
                    BlockHistory* block) {
    operator_name_ = operator_name;
    core_ = core;
    tile_ = -1;
    taken_ = {};
    buffers_ = 0;
    accesses_.clear();
    memory_ = memory;
    global_ = std::move(global);
    block_ = block;
    cube_seen_ = {};
    small_product_ = nullptr;
    for (auto& region : blocks_) region.clear();
    clocks_ = {};
    busy_ = {};
    flags_.clear();
}

void Checker::Fail(const char* instruction, const std::string& rule, const void* address) const {
    const auto* byte = static_cast<const uint8_t*>(address);
    char place[64];
    const int region = static_cast<int>(byte < memory_ ? Region::kCount
                                        : RegionAt(static_cast<uint64_t>(byte - memory_)));
    if (region < kRegionCount) {
        std::snprintf(place, sizeof place, "%s+0x%lx", kRegionNames[region],
                      static_cast<unsigned long>(byte - memory_ - RegionOffset(region)));
    } else {
        std::snprintf(place, sizeof place, "address %p", address);
    }
    throw Violation(operator_name_ + ": core " + std::to_string(core_.index) + ", tile " +
                    std::to_string(tile_) + ", " + place + ": " + instruction + ": " + rule);
}

uint32_t Checker::Issue(pipe_t pipe) {
    if (pipe != PIPE_S) Order(pipe, clocks_[PIPE_S]);
    return ++clocks_[pipe][pipe];
}

uint64_t Checker::Locate(const void* address, uint64_t bytes, const char* instruction) const {
    const auto* byte = static_cast<const uint8_t*>(address);
    const auto begin = static_cast<uint64_t>(byte - memory_);
    const Region region = byte < memory_ ? Region::kCount : RegionAt(begin);
    if (region == Region::kCount || (bytes != 0 && RegionAt(begin + bytes - 1) != region)) {
        Fail(instruction, "access outside the core's memories", address);
    }
    return begin;
}

// Which memories a pipe is wired to.
void Checker::RequireReach(pipe_t pipe, uint64_t offset, const char* instruction,
                           const void* address) const {
    const Region region = RegionAt(offset);
    bool reaches = region == Region::kUnifiedBuffer;
    if (pipe == PIPE_MTE2) reaches = reaches || region == Region::kL1;
    if (pipe == PIPE_MTE1) reaches = region != Region::kUnifiedBuffer && region != Region::kL0C;
    if (pipe == PIPE_M) reaches = region != Region::kUnifiedBuffer && region != Region::kL1;
    if (pipe == PIPE_FIX) reaches = region == Region::kL0C;
    if (!reaches) {
        Fail(instruction, std::string("pipe ") + PipeName(pipe) + " does not reach " +
             kRegionNames[static_cast<int>(region)], address);
    }
}

Checker::Block& Checker::BlockAt(uint64_t offset) {
    const int region = static_cast<int>(RegionAt(offset));
    auto& blocks = blocks_[static_cast<size_t>(region)];
    if (blocks.empty()) blocks.assign(kRegionBytes[region] / kBlockBytes, Block{});
    return blocks[(offset - RegionOffset(region)) / kBlockBytes];
}

const Checker::Block* Checker::FindBlock(uint64_t offset) const {
    const int region = static_cast<int>(RegionAt(offset));
    const auto& blocks = blocks_[static_cast<size_t>(region)];
    return blocks.empty() ? nullptr : &blocks[(offset - RegionOffset(region)) / kBlockBytes];
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
    ReadBlocks(pipe, address, bytes, instruction, false);
}

void Checker::ReadUnsure(pipe_t pipe, const void* address, uint64_t bytes,
                         const char* instruction) {
    ReadBlocks(pipe, address, bytes, instruction, true);
}

bool Checker::IsInitialised(const void* address, uint64_t bytes) const {
    const uint64_t begin = Locate(address, bytes, "load");
    const Block* block = FindBlock(begin);
    const uint32_t wanted = ByteMask(begin % kBlockBytes, begin % kBlockBytes + bytes);
    return block != nullptr && (block->initialised & wanted) == wanted;
}

void Checker::MarkUninitialised(const void* address, uint64_t bytes) {
    const uint64_t begin = Locate(address, bytes, "load");
    BlockAt(begin).initialised &= ~ByteMask(begin % kBlockBytes, begin % kBlockBytes + bytes);
}

void Checker::ReadBlocks(pipe_t pipe, const void* address, uint64_t bytes,
                         const char* instruction, bool may_be_unwritten) {
    const uint64_t begin = Locate(address, bytes, instruction);
    if (bytes != 0) RequireReach(pipe, begin, instruction, address);
    const uint32_t now = Issue(pipe);
    for (uint64_t at = begin; at < begin + bytes;) {
        const uint64_t block_begin = at / kBlockBytes * kBlockBytes;
        const uint64_t end = std::min(block_begin + kBlockBytes, begin + bytes);
        Block& block = BlockAt(at);
        const void* here = memory_ + at;
        if (!block.mapped) Fail(instruction, "reads a buffer that is not allocated", here);
        RequireWriteSeen(block, pipe, instruction, here);
        const uint32_t wanted = ByteMask(at - block_begin, end - block_begin);
        if (!may_be_unwritten && (block.initialised & wanted) != wanted) {
            Fail(instruction, "reads bytes that nothing has written", here);
        }
        block.read_time[pipe] = now;
        at = end;
    }
}

void Checker::Write(pipe_t pipe, const void* address, uint64_t bytes, const char* instruction) {
    const uint64_t begin = Locate(address, bytes, instruction);
    if (bytes != 0) RequireReach(pipe, begin, instruction, address);
    const uint32_t now = Issue(pipe);
    for (uint64_t at = begin; at < begin + bytes;) {
        const uint64_t block_begin = at / kBlockBytes * kBlockBytes;
        const uint64_t end = std::min(block_begin + kBlockBytes, begin + bytes);
        Block& block = BlockAt(at);
        const void* here = memory_ + at;
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

void Checker::Global(GlobalAccess::Kind kind, pipe_t pipe, const void* address, uint64_t bytes,
                     const char* instruction) {
    const uint32_t time = clocks_[pipe][pipe];
    const auto* begin = static_cast<const uint8_t*>(address);
    for (const auto& [start, size] : global_) {
        if (begin < start || begin + bytes > start + size) continue;
        if (!core_.is_cube) RequireCubeSeen(begin, bytes, instruction);
        if (!accesses_.empty() && accesses_.back().end == begin &&
            accesses_.back().kind == kind && accesses_.back().tile == tile_ &&
            (!core_.is_cube || accesses_.back().time == time)) {
            accesses_.back().end += bytes;
        } else {
            accesses_.push_back({begin, begin + bytes, core_.index, kind, instruction, pipe, time,
                                 core_.block, core_.is_cube, tile_});
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
        BlockAt(at).mapped = true;
        BlockAt(at).initialised = 0;
    }
}

void Checker::Unmap(const void* address, uint64_t bytes) {
    const uint64_t begin = Locate(address, bytes, "FreeTensor");
    for (uint64_t at = begin; at < begin + bytes; at += kBlockBytes) {
        BlockAt(at).mapped = false;
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
    if (!core_.is_cube) RequireFlagsWaited();
    if (core_.is_cube) {
        for (const GlobalAccess& access : accesses_) {
            if (access.kind != GlobalAccess::Kind::kRead) block_->cube_writes.push_back(access);
        }
    }
    return std::move(accesses_);
}

}  // namespace cpusim
