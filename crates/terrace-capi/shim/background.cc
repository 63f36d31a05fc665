// SPDX-License-Identifier: MIT OR Apache-2.0

#include "background.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace terrace {
namespace {

struct Call {
  void (*function)(void*);
  void* arg;
};

// Lives as long as the process, like its thread.
class Queue {
 public:
  pid_t process() const { return process_; }

  void Add(Call call) {
    std::lock_guard<std::mutex> guard(mutex_);
    calls_.push_back(call);
    if (!started_) {
      started_ = true;
      std::thread([this] { Run(); }).detach();
    }
    added_.notify_one();
  }

 private:
  void Run() {
    for (;;) {
      const Call call = Next();
      call.function(call.arg);
    }
  }

  Call Next() {
    std::unique_lock<std::mutex> guard(mutex_);
    added_.wait(guard, [this] { return !calls_.empty(); });
    const Call call = calls_.front();
    calls_.pop_front();
    return call;
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Call> calls_;
  bool started_ = false;
};

}  // namespace

void RunOnBackgroundThread(void (*function)(void*), void* arg) {
  static std::atomic<Queue*> current{nullptr};
  Queue* queue = current.load();
  // A forked child has no thread for the queue of its parent, and another thread may have locked it.
  while (queue == nullptr || queue->process() != getpid()) {
    Queue* const created = new Queue;
    if (current.compare_exchange_strong(queue, created)) {
      queue = created;
    } else {
      delete created;
    }
  }
  queue->Add(Call{function, arg});
}

void RunOnNewThread(void (*function)(void*), void* arg) { std::thread(function, arg).detach(); }

}  // namespace terrace
