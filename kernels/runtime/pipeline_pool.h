// A pool of stages that overlaps the copy in, the computation and the copy out of different items.
//
// Each stage has page-locked host buffers and device buffers of its own. Copies in, kernels and
// copies out go to three streams, ordered by events; a stage is given out again only when its
// result has been let go of, so that no buffer is overwritten while in use.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "device.h"

namespace ascend_ops {

struct PipelineOptions {
    int stage_count = 3;  // one a stream: fewer cannot overlap all three
    std::vector<uint64_t> input_bytes;
    uint64_t output_bytes = 0;
    uint64_t workspace_bytes = 0;
};

struct PipelineStatistics {
    uint64_t submitted = 0;
    uint64_t waits = 0;           // submissions that had to wait for a free stage
    int stages_in_use = 0;
    int stages_in_use_peak = 0;
    uint64_t bytes_in = 0;
    uint64_t bytes_out = 0;
};

// When the host queued an item and when it had the result, for a timeline of the overlap.
struct PipelineSpan {
    uint64_t item;
    int stage;
    int64_t submitted_ns;  // since the pool was made
    int64_t collected_ns;
};

class PipelinePool;

// An item under way. Wait gives its output, which stays valid until the ticket is destroyed.
class PipelineTicket {
   public:
    ~PipelineTicket();
    PipelineTicket(const PipelineTicket&) = delete;
    PipelineTicket& operator=(const PipelineTicket&) = delete;
    Result Wait(const void** output);

   private:
    friend class PipelinePool;
    PipelineTicket(std::shared_ptr<PipelinePool> pool, int stage, uint64_t item);
    std::shared_ptr<PipelinePool> pool_;
    int stage_;
    uint64_t item_;
    int64_t submitted_ns_;
};

class PipelinePool : public std::enable_shared_from_this<PipelinePool> {
   public:
    // Fills the page-locked input buffers of a stage, in the order of input_bytes.
    using Fill = std::function<void(const std::vector<void*>& inputs)>;

    static Result Create(std::shared_ptr<Device> device, PipelineOptions options,
                         std::shared_ptr<PipelinePool>* pool);
    // Waits for a free stage, fills it and queues the item; threads may call it at once.
    Result Submit(const AscendOperator* op, const AscendProblem& problem, const AscendPlan& plan,
                  const Fill& fill, std::unique_ptr<PipelineTicket>* ticket);
    PipelineStatistics statistics() const;
    std::vector<PipelineSpan> timeline() const;

   private:
    friend class PipelineTicket;
    struct Stage {
        std::vector<std::shared_ptr<Buffer>> host_inputs;
        std::vector<std::shared_ptr<Buffer>> device_inputs;
        std::shared_ptr<Buffer> host_output;
        std::shared_ptr<Buffer> device_output;
        std::shared_ptr<Buffer> workspace;
        std::unique_ptr<Event> copied_in;
        std::unique_ptr<Event> computed;
        std::unique_ptr<Event> copied_out;
        bool in_use = false;
    };

    PipelinePool(std::shared_ptr<Device> device, PipelineOptions options);
    Result CreateStage(Stage* stage);
    Result CreateStreams();
    int AcquireStage();
    void ReleaseStage(int stage);
    Result Queue(Stage& stage, const AscendOperator* op, const AscendProblem& problem,
                 const AscendPlan& plan);
    int64_t Now() const;

    std::shared_ptr<Device> device_;
    PipelineOptions options_;
    std::unique_ptr<Stream> in_;
    std::unique_ptr<Stream> compute_;
    std::unique_ptr<Stream> out_;
    std::vector<Stage> stages_;
    mutable std::mutex mutex_;
    std::mutex queue_mutex_;  // one item is queued to the three streams at a time
    std::condition_variable stage_free_;
    PipelineStatistics statistics_;
    std::vector<PipelineSpan> timeline_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace ascend_ops
