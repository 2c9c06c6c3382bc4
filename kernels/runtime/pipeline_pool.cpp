#include "pipeline_pool.h"

#include <algorithm>

namespace ascend_ops {

PipelineTicket::PipelineTicket(std::shared_ptr<PipelinePool> pool, int stage, uint64_t item)
    : pool_(std::move(pool)), stage_(stage), item_(item), submitted_ns_(pool_->Now()) {}

PipelineTicket::~PipelineTicket() {
    // The device may still use the stage when nobody waited for the result.
    const auto& stage = pool_->stages_[static_cast<size_t>(stage_)];
    static_cast<void>(pool_->device_->SynchronizeEvent(stage.copied_out->handle()));
    pool_->ReleaseStage(stage_);
}

Result PipelineTicket::Wait(const void** output) {
    const auto& stage = pool_->stages_[static_cast<size_t>(stage_)];
    Result result = pool_->device_->SynchronizeEvent(stage.copied_out->handle());
    if (!result.ok()) return result;
    *output = stage.host_output->data();
    const std::lock_guard<std::mutex> lock(pool_->mutex_);
    pool_->timeline_.push_back({item_, stage_, submitted_ns_, pool_->Now()});
    return result;
}

PipelinePool::PipelinePool(std::shared_ptr<Device> device, PipelineOptions options)
    : device_(std::move(device)), options_(std::move(options)),
      start_(std::chrono::steady_clock::now()) {}

int64_t PipelinePool::Now() const {
    const auto since = std::chrono::steady_clock::now() - start_;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

Result PipelinePool::CreateStage(Stage* stage) {
    Result result;
    const auto create = [&](MemoryType type, uint64_t bytes, std::shared_ptr<Buffer>* buffer) {
        if (result.ok()) result = Buffer::Create(device_, type, bytes, buffer);
    };
    for (const uint64_t bytes : options_.input_bytes) {
        stage->host_inputs.emplace_back();
        stage->device_inputs.emplace_back();
        create(MemoryType::kPinnedHost, bytes, &stage->host_inputs.back());
        create(MemoryType::kDevice, bytes, &stage->device_inputs.back());
    }
    create(MemoryType::kPinnedHost, options_.output_bytes, &stage->host_output);
    create(MemoryType::kDevice, options_.output_bytes, &stage->device_output);
    if (options_.workspace_bytes > 0) {
        create(MemoryType::kDevice, options_.workspace_bytes, &stage->workspace);
    }
    for (auto* event : {&stage->copied_in, &stage->computed, &stage->copied_out}) {
        if (result.ok()) result = Event::Create(device_, event);
    }
    return result;
}

Result PipelinePool::CreateStreams() {
    for (auto* stream : {&in_, &compute_, &out_}) {
        Result result = Stream::Create(device_, stream);
        if (!result.ok()) return result;
    }
    return {};
}

Result PipelinePool::Create(std::shared_ptr<Device> device, PipelineOptions options,
                            std::shared_ptr<PipelinePool>* pool) {
    if (options.stage_count < 1 || options.input_bytes.empty()) {
        return {ASCEND_INVALID, "pipeline: needs at least one stage and one input"};
    }
    std::shared_ptr<PipelinePool> made(new PipelinePool(std::move(device), std::move(options)));
    made->stages_.resize(static_cast<size_t>(made->options_.stage_count));
    for (Stage& stage : made->stages_) {
        Result result = made->CreateStage(&stage);
        if (!result.ok()) return result;
    }
    Result result = made->CreateStreams();
    if (result.ok()) *pool = std::move(made);
    return result;
}

int PipelinePool::AcquireStage() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto free_stage = [this] {
        return std::find_if(stages_.begin(), stages_.end(),
                            [](const Stage& stage) { return !stage.in_use; });
    };
    if (free_stage() == stages_.end()) ++statistics_.waits;
    stage_free_.wait(lock, [&] { return free_stage() != stages_.end(); });
    const auto stage = free_stage();
    stage->in_use = true;
    ++statistics_.stages_in_use;
    statistics_.stages_in_use_peak =
        std::max(statistics_.stages_in_use_peak, statistics_.stages_in_use);
    return static_cast<int>(stage - stages_.begin());
}

void PipelinePool::ReleaseStage(int stage) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stages_[static_cast<size_t>(stage)].in_use = false;
        --statistics_.stages_in_use;
    }
    stage_free_.notify_one();
}

Result PipelinePool::Queue(Stage& stage, const AscendOperator* op, const AscendProblem& problem,
                           const AscendPlan& plan) {
    std::vector<AscendTensor> tensors;
    Result result;
    const auto then = [&result](Result next) {
        if (result.ok()) result = std::move(next);
    };
    for (size_t i = 0; i < stage.host_inputs.size(); ++i) {
        then(device_->Copy(stage.device_inputs[i]->data(), stage.host_inputs[i]->data(),
                           stage.host_inputs[i]->bytes(), CopyKind::kHostToDevice, in_->handle()));
        tensors.push_back(stage.device_inputs[i]->tensor());
    }
    tensors.push_back(stage.device_output->tensor());
    tensors.push_back(stage.workspace ? stage.workspace->tensor() : AscendTensor{nullptr, 0});
    then(device_->Record(stage.copied_in->handle(), in_->handle()));
    then(device_->WaitEvent(compute_->handle(), stage.copied_in->handle()));
    then(device_->Launch(op, problem, plan, std::move(tensors), compute_->handle()));
    then(device_->Record(stage.computed->handle(), compute_->handle()));
    then(device_->WaitEvent(out_->handle(), stage.computed->handle()));
    then(device_->Copy(stage.host_output->data(), stage.device_output->data(),
                       stage.host_output->bytes(), CopyKind::kDeviceToHost, out_->handle()));
    then(device_->Record(stage.copied_out->handle(), out_->handle()));
    return result;
}

Result PipelinePool::Submit(const AscendOperator* op, const AscendProblem& problem,
                            const AscendPlan& plan, const Fill& fill,
                            std::unique_ptr<PipelineTicket>* ticket) {
    if (plan.workspace_bytes > options_.workspace_bytes) {
        return {ASCEND_INVALID, "pipeline: the operator needs " +
                                    std::to_string(plan.workspace_bytes) +
                                    " bytes of workspace; set workspace_bytes"};
    }
    const int index = AcquireStage();
    Stage& stage = stages_[static_cast<size_t>(index)];
    std::vector<void*> inputs;
    for (const auto& buffer : stage.host_inputs) inputs.push_back(buffer->data());
    fill(inputs);
    Result result;
    {
        const std::lock_guard<std::mutex> lock(queue_mutex_);
        result = Queue(stage, op, problem, plan);
    }
    if (!result.ok()) {
        // Part of the item may be queued: the stage is free once all streams are empty.
        for (auto* stream : {&in_, &compute_, &out_}) {
            static_cast<void>(device_->Synchronize((*stream)->handle()));
        }
        ReleaseStage(index);
        return result;
    }
    uint64_t item;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        item = statistics_.submitted++;
        for (const uint64_t bytes : options_.input_bytes) statistics_.bytes_in += bytes;
        statistics_.bytes_out += options_.output_bytes;
    }
    ticket->reset(new PipelineTicket(shared_from_this(), index, item));
    return {};
}

PipelineStatistics PipelinePool::statistics() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return statistics_;
}

std::vector<PipelineSpan> PipelinePool::timeline() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return timeline_;
}

}  // namespace ascend_ops
