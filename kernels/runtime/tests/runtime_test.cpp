// Sessions, memory and the pipeline on cpusim's streams. Run by tests/test_runtime.py, plain and
// under the thread and address sanitizers.
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "check.h"
#include "cpusim_device.h"
#include "operator_session.h"
#include "pipeline_pool.h"

using namespace ascend_ops;

namespace {

// y = x + 1 over floats, with a workspace of the input's size; fails for a negative size.
int PlanAddOne(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    if (problem->sizes[0] < 0) {
        std::snprintf(error->text, sizeof error->text, "add_one: the length is negative");
        return ASCEND_INVALID;
    }
    plan->core_count = 1;
    plan->workspace_bytes = static_cast<uint64_t>(problem->sizes[0]) * 4;
    return ASCEND_OK;
}

int RunAddOne(const AscendProblem* problem, const AscendPlan*, const AscendTensor* tensors, int32_t,
              int32_t, AscendError* error) {
    const auto* x = static_cast<const float*>(tensors[0].data);
    auto* y = static_cast<float*>(tensors[1].data);
    auto* workspace = static_cast<float*>(tensors[2].data);
    for (int64_t i = 0; i < problem->sizes[0]; ++i) workspace[i] = x[i];
    std::this_thread::yield();  // calls that shared a workspace would now meet
    for (int64_t i = 0; i < problem->sizes[0]; ++i) y[i] = workspace[i] + 1.0f;
    if (x[0] == 13.0f) {
        std::snprintf(error->text, sizeof error->text, "add_one: core 0 met 13");
        return ASCEND_VIOLATION;
    }
    return ASCEND_OK;
}

const AscendOperator kAddOne = {"add_one", 2, PlanAddOne, RunAddOne};

AscendProblem Length(int64_t length) {
    AscendProblem problem{};
    problem.sizes[0] = length;
    return problem;
}

std::shared_ptr<Buffer> Filled(const std::shared_ptr<Device>& device, int64_t length, float value) {
    std::shared_ptr<Buffer> buffer;
    CHECK_OK(Buffer::Create(device, MemoryType::kDevice, static_cast<uint64_t>(length) * 4, &buffer));
    std::fill_n(static_cast<float*>(buffer->data()), length, value);
    return buffer;
}

void RegistryRefusesWhatItCannotServe() {
    OperatorRegistry registry;
    CHECK_OK(registry.Register(&kAddOne));
    CHECK(registry.Register(&kAddOne).text() ==
          "register: there is an operator called add_one already; choose another name");
    CHECK(!registry.Register(nullptr).ok());
    CHECK(!registry.RegisterLibrary(nullptr).ok());
    const AscendOperator* op = nullptr;
    CHECK(registry.Find("add_two", &op).text() ==
          "no operator is called add_two; register its library first");
}

void SessionComputesAndKeepsOperandsAlive() {
    auto device = std::make_shared<CpusimDevice>(CpusimDeviceOptions{0.0, 20e6});
    OperatorRegistry registry;
    CHECK_OK(registry.Register(&kAddOne));
    {
        OperatorSession session(device, &registry);
        auto early = Filled(device, 8, 1.0f);
        std::shared_ptr<Completion> work;
        CHECK(!session.ComputeAsync("add_one", Length(8), {early, early}, &work).ok());
        CHECK_OK(session.Initialise());
        auto x = Filled(device, 1000, 2.0f);
        auto y = Filled(device, 1000, 0.0f);
        CHECK_OK(session.ComputeAsync("add_one", Length(1000), {x, y}, &work));
        bool done = true;
        CHECK_OK(work->Done(&done));
        CHECK(!done);  // the kernel takes 20 ms: the call came back at once
        x.reset();     // the caller lets go while the kernel waits to run
        CHECK_OK(work->Wait());
        CHECK_OK(work->Wait());
        CHECK(static_cast<float*>(y->data())[999] == 3.0f);
        CHECK(session.ComputeAsync("add_one", Length(-1), {y, y}, &work).text() ==
              "add_one: the length is negative");
        CHECK(session.ComputeAsync("add_one", Length(1), {y}, &work).text() ==
              "add_one: takes 2 operands, not 1");
        CHECK_OK(session.Finalise());
    }
    CHECK(device->live_allocations() == 0);
}

void ErrorsReachWhoeverWaits() {
    auto device = std::make_shared<CpusimDevice>();
    OperatorRegistry registry;
    CHECK_OK(registry.Register(&kAddOne));
    OperatorSession session(device, &registry);
    CHECK_OK(session.Initialise());
    std::shared_ptr<Completion> bad, good;
    auto y = Filled(device, 8, 0.0f);
    CHECK_OK(session.ComputeAsync("add_one", Length(8), {Filled(device, 8, 13.0f), y}, &bad));
    CHECK_OK(session.ComputeAsync("add_one", Length(8), {Filled(device, 8, 1.0f), y}, &good));
    CHECK_OK(good->Wait());
    CHECK(bad->Wait().text() == "add_one: core 0 met 13");
    CHECK(bad->Wait().code() == ASCEND_VIOLATION);
    CHECK_OK(session.ComputeAsync("add_one", Length(8), {Filled(device, 8, 13.0f), y}, &bad));
    bad.reset();  // nobody waits: the session tells it at the end
    CHECK(session.Finalise().text() == "add_one: core 0 met 13");
}

void ConcurrentCallsShareNoWorkspace() {
    auto device = std::make_shared<CpusimDevice>();
    OperatorRegistry registry;
    CHECK_OK(registry.Register(&kAddOne));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    OperatorSession shared(device, &registry);
    CHECK_OK(shared.Initialise());
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            OperatorSession own(device, &registry);
            CHECK_OK(own.Initialise());
            for (int i = 0; i < 50; ++i) {
                OperatorSession& session = i % 2 ? own : shared;
                const float value = static_cast<float>(100 * t + 20 + i);
                auto y = Filled(device, 500, 0.0f);
                std::shared_ptr<Completion> work;
                CHECK_OK(session.ComputeAsync("add_one", Length(500),
                                              {Filled(device, 500, value), y}, &work));
                CHECK_OK(work->Wait());
                if (static_cast<float*>(y->data())[499] != value + 1.0f) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
}

void StreamsShowLifetimeAndOrderingBugs() {
    auto device = std::make_shared<CpusimDevice>(CpusimDeviceOptions{1000.0, 0.0});
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> event;
    CHECK_OK(Stream::Create(device, &stream));
    CHECK_OK(Event::Create(device, &event));
    CHECK(!device->WaitEvent(stream->handle(), event->handle()).ok());
    std::shared_ptr<Buffer> host, target;
    CHECK_OK(Buffer::Create(device, MemoryType::kPinnedHost, 4096, &host));
    CHECK_OK(Buffer::Create(device, MemoryType::kDevice, 4096, &target));
    std::memset(host->data(), 7, 4096);
    std::vector<uint8_t> pageable(4096);
    CHECK_OK(device->Copy(target->data(), pageable.data(), 4096, CopyKind::kHostToDevice,
                          stream->handle()));
    CHECK(device->Synchronize(stream->handle()).text().find("page-locked memory") !=
          std::string::npos);
    // The first copy takes 4 ms, and the second one's target is freed meanwhile.
    for (int i = 0; i < 2; ++i) {
        CHECK_OK(device->Copy(target->data(), host->data(), 4096, CopyKind::kHostToDevice,
                              stream->handle()));
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    std::shared_ptr<Buffer> late;
    CHECK_OK(Buffer::Create(device, MemoryType::kDevice, 4096, &late));
    CHECK_OK(device->Copy(late->data(), host->data(), 4096, CopyKind::kHostToDevice,
                          stream->handle()));
    late.reset();
    CHECK(device->Synchronize(stream->handle()).text().find("it may have been freed") !=
          std::string::npos);
}

void PoolReusesWhatCameBack() {
    auto device = std::make_shared<CpusimDevice>();
    auto pool = std::make_shared<MemoryPool>(device, MemoryType::kDevice);
    for (int i = 0; i < 10; ++i) {
        PooledBuffer buffer;
        CHECK_OK(pool->Take(3000 + static_cast<uint64_t>(i), &buffer));
        CHECK(buffer.tensor().bytes == 4096);
    }
    CHECK(pool->statistics().allocations == 1 && pool->statistics().reuses == 9);
    CHECK(pool->statistics().bytes_in_use == 0 && pool->statistics().bytes_peak == 4096);
    pool.reset();
    CHECK(device->live_allocations() == 0);
}

// Items per second of `count` items of `length` floats through a pool of `stages` stages.
double Throughput(int stages, int count, int64_t length, CpusimDeviceOptions cost) {
    auto device = std::make_shared<CpusimDevice>(cost);
    PipelineOptions options;
    options.stage_count = stages;
    options.input_bytes = {static_cast<uint64_t>(length) * 4};
    options.output_bytes = options.workspace_bytes = static_cast<uint64_t>(length) * 4;
    std::shared_ptr<PipelinePool> pool;
    CHECK_OK(PipelinePool::Create(device, options, &pool));
    AscendPlan plan{};
    AscendError error{};
    const AscendProblem problem = Length(length);
    CHECK(PlanAddOne(&problem, &plan, &error) == ASCEND_OK);
    const auto start = std::chrono::steady_clock::now();
    std::deque<std::pair<float, std::unique_ptr<PipelineTicket>>> tickets;
    const auto collect = [&] {
        const void* output = nullptr;
        CHECK_OK(tickets.front().second->Wait(&output));
        CHECK(static_cast<const float*>(output)[length - 1] == tickets.front().first + 1.0f);
        tickets.pop_front();
    };
    for (int i = 0; i < count; ++i) {
        if (static_cast<int>(tickets.size()) == stages) collect();
        const float value = static_cast<float>(20 + i);
        std::unique_ptr<PipelineTicket> ticket;
        CHECK_OK(pool->Submit(&kAddOne, problem, plan,
                              [&](const std::vector<void*>& inputs) {
                                  std::fill_n(static_cast<float*>(inputs[0]), length, value);
                              },
                              &ticket));
        tickets.emplace_back(value, std::move(ticket));
    }
    while (!tickets.empty()) collect();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK(pool->timeline().size() == static_cast<size_t>(count));
    CHECK(pool->statistics().stages_in_use == 0);
    CHECK(pool->statistics().stages_in_use_peak <= stages);
    pool.reset();
    CHECK(device->live_allocations() == 0);
    return count / seconds.count();
}

// Several threads submit items of random age; whoever is given a stage marks it as his, so that
// a stage that two items share is seen.
void RandomSchedulesNeverShareAStage(int schedules, unsigned seed) {
    std::mt19937 random(seed);
    for (int schedule = 0; schedule < schedules; ++schedule) {
        auto device = std::make_shared<CpusimDevice>();
        PipelineOptions options;
        options.stage_count = 1 + static_cast<int>(random() % 4);
        options.input_bytes = {64};
        options.output_bytes = options.workspace_bytes = 64;
        std::shared_ptr<PipelinePool> pool;
        CHECK_OK(PipelinePool::Create(device, options, &pool));
        AscendPlan plan{};
        AscendError error{};
        const AscendProblem problem = Length(16);
        CHECK(PlanAddOne(&problem, &plan, &error) == ASCEND_OK);
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t) {
            threads.emplace_back([&, t, choice = random()]() mutable {
                for (int i = 0; i < 4; ++i, choice = choice * 1664525u + 1013904223u) {
                    const float value = static_cast<float>(20 + t * 100 + i);
                    std::unique_ptr<PipelineTicket> ticket;
                    const auto fill = [&](const std::vector<void*>& inputs) {
                        std::fill_n(static_cast<float*>(inputs[0]), 16, value);
                        if (choice >> 31) std::this_thread::yield();
                    };
                    CHECK_OK(pool->Submit(&kAddOne, problem, plan, fill, &ticket));
                    if ((choice >> 28) % 4 == 0) continue;  // dropped without a wait
                    const void* output = nullptr;
                    CHECK_OK(ticket->Wait(&output));
                    if ((choice >> 27) % 2) std::this_thread::yield();
                    for (int k = 0; k < 16; ++k) {
                        CHECK(static_cast<const float*>(output)[k] == value + 1.0f);
                    }
                }
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(pool->statistics().stages_in_use_peak <= options.stage_count);
        pool.reset();
        CHECK(device->live_allocations() == 0);
    }
}

// Each copy and each kernel takes `step_ms`: serial three steps an item, overlapped one at best.
void PipelineOverlapsCopiesAndKernels(double step_ms) {
    const CpusimDeviceOptions cost{step_ms * 1e6 / 4096, step_ms * 1e6};
    const double serial = Throughput(1, 20, 1024, cost);
    const double overlapped = Throughput(3, 20, 1024, cost);
    std::printf("{\"serial_items_per_s\": %.1f, \"overlapped_items_per_s\": %.1f, "
                "\"speedup\": %.2f}\n", serial, overlapped, overlapped / serial);
}

}  // namespace

int main(int argc, char** argv) {
    const int schedules = argc > 1 ? std::atoi(argv[1]) : 100;
    RegistryRefusesWhatItCannotServe();
    SessionComputesAndKeepsOperandsAlive();
    ErrorsReachWhoeverWaits();
    ConcurrentCallsShareNoWorkspace();
    StreamsShowLifetimeAndOrderingBugs();
    PoolReusesWhatCameBack();
    RandomSchedulesNeverShareAStage(schedules, 42);
    PipelineOverlapsCopiesAndKernels(argc > 2 ? std::atof(argv[2]) : 2.0);
    return 0;
}
