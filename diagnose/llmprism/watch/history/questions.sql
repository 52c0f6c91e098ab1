-- incidents
create temp view incidents as
select incident, arg_max(place, number) as place, arg_max(alertname, number) as alertname,
       arg_max(job, number) as job, arg_max(severity, number) as severity,
       min("startsAt") as since, arg_max(event, number) as stage,
       max(gpu_hours) as gpu_hours, max(confidence) as confidence,
       arg_max(summary, number) as summary,
       case when arg_max(event, number) = 'resolved' and arg_max("endsAt", number) <> ''
            then date_diff('millisecond', min("startsAt")::timestamptz,
                           arg_max("endsAt", number)::timestamptz) / 1e3 end as lasted_s
from findings where incident is not null and incident <> '' group by incident

-- culprits
select place, count(*) as incidents, sum(gpu_hours) as gpu_hours,
       median(lasted_s) as median_lasted_s,
       string_agg(distinct alertname, ', ' order by alertname) as causes,
       string_agg(distinct job, ', ' order by job) as jobs
from incidents group by place order by incidents desc, gpu_hours desc, place

-- findings
select since, stage, lasted_s, severity, alertname, place, job, gpu_hours, confidence, summary
from incidents order by since desc, incident

-- jobs
select job, min(step) as first_step, max(step) as last_step,
       make_timestamp_ns(min(start_ns)) as since, make_timestamp_ns(max(end_ns)) as until,
       median(end_ns - start_ns) / 1e9 as step_s, max(ranks) as ranks
from steps group by job order by since, job

-- layouts
select make_timestamp_ns(time_ns) as time, job, servers, gpus, layout, confidence
from layouts order by time, job
