# Sidekiq: a worker executes jobs at once, later, and again after a failure.

require 'sidekiq'

URL = "redis://127.0.0.1:#{ENV.fetch('CLIENT_PORT')}/0"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.options[:poll_interval_average] = 1
end

# Adds a number to a total.
class AddJob
  include Sidekiq::Worker
  sidekiq_options retry: 1
  sidekiq_retry_in { 0 }

  def perform(number, fails)
    Sidekiq.redis { |redis| raise 'on purpose' if fails && redis.incr('attempts') == 1 }
    Sidekiq.redis { |redis| redis.incrby('total', number) }
  end
end

unless Sidekiq.server?
  Sidekiq.redis(&:flushall)
  AddJob.perform_async(1, false)
  AddJob.perform_in(1, 10, false)
  AddJob.perform_async(100, true)
  worker = spawn(RbConfig.ruby, ENV.fetch('SIDEKIQ'), '-r', File.expand_path(__FILE__), '-c', '2', '-t', '1',
                 out: File::NULL, err: File::NULL)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 40
  total = nil
  while total != '111' && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    sleep 0.2
    total = Sidekiq.redis { |redis| redis.get('total') }
  end
  Process.kill('TERM', worker)
  Process.wait(worker)
  raise "the total is #{total.inspect}" unless total == '111'

  puts 'done'
end
