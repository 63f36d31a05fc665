#include "background.h"

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

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Call> calls_;
  bool started_ = false;
};

}  // namespace

void RunOnBackgroundThread(void (*function)(void*), void* arg) {
  static Queue* const queue = new Queue;
  queue->Add(Call{function, arg});
}

void RunOnNewThread(void (*function)(void*), void* arg) { std::thread(function, arg).detach(); }

}  // namespace terrace
