/* The same flows in SimGrid: reads a flow set (see ../flowset.py for the format), runs it
 * with the network model CM02, and writes the end of each flow.
 *
 *   ringbench FLOWSET ANSWER [--cfg=...]        (options are SimGrid's own)
 *
 * One line of JSON on stdout has the number of flows and the CPU time of the simulation. This
 * time does not include reading, building the platform and writing.
 *
 * Reasons for its speed, so that the comparison is fair:
 * - No actor runs. A communication is a direct one between two hosts. The callback that SimGrid
 *   calls at the end of its last predecessor creates it. An actor for each hop would need two
 *   context switches per flow. A graph of all communications, created in advance, would need a
 *   search through all of them at every end.
 * - The model updates lazily (network/optim:Lazy), the default; "Full" needs at least twice
 *   the time.
 * - A small table has the routes: with n hosts, n (n - 1) >= routes, every ordered pair has one
 *   route. Hosts have no other purpose here, because CM02 uses links only.
 *
 * Latency. CM02 divides a link in inverse proportion to the latencies of the routes of its
 * flows, but flow sets assume plain fairness. If every flow has the same latency per link of its
 * route, and flows that share a link have the same total latency, links get this latency. This
 * costs SimGrid no time, and CM02 is fair. Otherwise links have no latency, and a timer delays the
 * start of each flow.
 */
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

namespace {

constexpr double NS_PER_S = 1e9;

struct Flow {
  uint64_t size_bytes;
  double latency_s;
  int route;
  int waits_for;
  int after; // begin of the flows that wait for this one, in FlowSet::after
};

struct FlowSet {
  std::vector<double> capacity; // bytes/s of each link
  std::vector<std::vector<int>> routes;
  std::vector<Flow> flows;
  std::vector<int> after; // flows that wait for flow 0, for flow 1, ...
  int end = 0;            // of `after`

  int after_end(size_t i) const { return i + 1 < flows.size() ? flows[i + 1].after : end; }
};

size_t section(std::istream& in, const std::string& name)
{
  std::string word;
  size_t count;
  if (!(in >> word >> count) || word != name)
    throw std::runtime_error("the flow set has no section '" + name + "' where it should be");
  return count;
}

std::vector<int> row(std::istream& in)
{
  size_t count;
  in >> count;
  std::vector<int> numbers(count);
  for (int& number : numbers)
    in >> number;
  return numbers;
}

FlowSet read_flow_set(const std::string& path)
{
  std::ifstream in(path);
  while (in.peek() == '#')
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  FlowSet set;
  set.capacity.resize(section(in, "links"));
  for (double& capacity : set.capacity)
    in >> capacity;
  set.routes.resize(section(in, "routes"));
  for (auto& route : set.routes)
    route = row(in);
  set.flows.resize(section(in, "flows"));
  std::vector<std::vector<int>> after(set.flows.size());
  for (size_t i = 0; i < set.flows.size(); i++) {
    Flow& flow = set.flows[i];
    in >> flow.size_bytes >> flow.latency_s >> flow.route;
    flow.latency_s /= NS_PER_S;
    auto before = row(in);
    flow.waits_for = static_cast<int>(before.size());
    for (int earlier : before)
      after.at(earlier).push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < set.flows.size(); i++) {
    set.flows[i].after = static_cast<int>(set.after.size());
    set.after.insert(set.after.end(), after[i].begin(), after[i].end());
  }
  set.end = static_cast<int>(set.after.size());
  if (!in)
    throw std::runtime_error("the flow set " + path + " cannot be read to its end");
  return set;
}

/* The latency of all links, or -1 if it would be wrong or unfair. */
double latency_of_links(const FlowSet& set)
{
  std::vector<double> shared(set.capacity.size(), -1);
  double of_all = -1;
  for (const Flow& flow : set.flows) {
    const auto& route = set.routes.at(flow.route);
    double of_each = flow.latency_s / static_cast<double>(route.size());
    if (of_all >= 0 && of_each != of_all)
      return -1;
    of_all = of_each;
    for (int link : route) {
      if (shared[link] >= 0 && shared[link] != flow.latency_s)
        return -1;
      shared[link] = flow.latency_s;
    }
  }
  return of_all;
}

class Simulation {
  FlowSet set_;
  bool by_timer_ = false;
  std::vector<std::pair<s4u::Host*, s4u::Host*>> ends_; // of each route
  std::vector<s4u::CommPtr> moving_;
  std::vector<double> ended_;

  std::vector<s4u::Link*> make_links(s4u::NetZone* zone)
  {
    double latency_s = latency_of_links(set_);
    by_timer_ = latency_s < 0;
    std::vector<s4u::Link*> links;
    for (size_t i = 0; i < set_.capacity.size(); i++) {
      auto* link = zone->create_link("link-" + std::to_string(i), set_.capacity[i]);
      links.push_back(link->set_latency(by_timer_ ? 0.0 : latency_s)->seal());
    }
    return links;
  }

  void lay_out()
  {
    auto* zone = s4u::create_full_zone("fabric");
    auto links = make_links(zone);
    std::vector<s4u::Host*> hosts;
    while (hosts.size() < 2 || hosts.size() * (hosts.size() - 1) < set_.routes.size())
      hosts.push_back(zone->create_host("host-" + std::to_string(hosts.size()), 1e9));
    for (size_t i = 0; i < set_.routes.size(); i++) {
      size_t from = i / (hosts.size() - 1), to = i % (hosts.size() - 1);
      ends_.emplace_back(hosts[from], hosts[to < from ? to : to + 1]);
      std::vector<s4u::LinkInRoute> way;
      for (int link : set_.routes[i])
        way.emplace_back(links[link]);
      zone->add_route(ends_[i].first->get_netpoint(), ends_[i].second->get_netpoint(), nullptr,
                      nullptr, way, false);
    }
    zone->seal();
  }

  void start(int i)
  {
    double latency_s = set_.flows[i].latency_s;
    if (by_timer_ && latency_s > 0)
      Timer::set(s4u::Engine::get_clock() + latency_s, [this, i]() { move(i); });
    else
      move(i);
  }

  void move(int i)
  {
    const Flow& flow = set_.flows[i];
    auto comm = s4u::Comm::sendto_init(ends_[flow.route].first, ends_[flow.route].second);
    comm->set_payload_size(flow.size_bytes);
    comm->set_data(reinterpret_cast<void*>(static_cast<intptr_t>(i)));
    moving_[i] = comm;
    comm->vetoable_start();
  }

  void over(int i)
  {
    ended_[i] = s4u::Engine::get_clock();
    moving_[i] = nullptr;
    for (int k = set_.flows[i].after; k < set_.after_end(i); k++)
      if (--set_.flows[set_.after[k]].waits_for == 0)
        start(set_.after[k]);
  }

public:
  explicit Simulation(FlowSet set)
      : set_(std::move(set)), moving_(set_.flows.size()), ended_(set_.flows.size(), -1)
  {
    lay_out();
    s4u::Activity::on_completion_cb([this](s4u::Activity const& activity) {
      void* number = static_cast<s4u::Comm const&>(activity).get_data<void>();
      over(static_cast<int>(reinterpret_cast<intptr_t>(number)));
    });
  }

  const std::vector<double>& run(const s4u::Engine& engine)
  {
    std::vector<int> free;
    for (size_t i = 0; i < set_.flows.size(); i++)
      if (set_.flows[i].waits_for == 0)
        free.push_back(static_cast<int>(i));
    for (int i : free)
      start(i);
    engine.run();
    return ended_;
  }
};

void write_answer(const std::string& path, const std::vector<double>& ended)
{
  std::FILE* out = std::fopen(path.c_str(), "w");
  if (out == nullptr)
    throw std::runtime_error("cannot write " + path);
  for (double end_s : ended)
    std::fprintf(out, "%.6f\n", end_s * NS_PER_S);
  std::fclose(out);
}

/* CM02 as published, without corrections for TCP, and with every byte on its own links only. */
void configure()
{
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/latency-factor:1");
  s4u::Engine::set_config("network/bandwidth-factor:1");
  s4u::Engine::set_config("network/weight-S:0");
  s4u::Engine::set_config("network/crosstraffic:0");
}

} // namespace

int main(int argc, char** argv)
{
  xbt_log_control_set("root.thres:warning");
  s4u::Engine engine(&argc, argv); // takes its own options out of argv
  configure();
  if (argc != 3) {
    std::cerr << "usage: ringbench FLOWSET ANSWER [--cfg=...]\n";
    return 2;
  }
  try {
    Simulation simulation(read_flow_set(argv[1]));
    std::clock_t began = std::clock();
    const auto& ended = simulation.run(engine);
    double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    if (std::find(ended.begin(), ended.end(), -1.0) != ended.end())
      throw std::runtime_error("some flows never ended");
    write_answer(argv[2], ended);
    std::printf("{\"flows\": %zu, \"seconds\": %.6f}\n", ended.size(), seconds);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
