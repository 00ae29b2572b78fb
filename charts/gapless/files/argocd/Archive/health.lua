-- Health of an Archive for Argo CD. One that archives is healthy, also while it waits for its scheduled time.
local health = {status = "Progressing", message = "Waiting for the Gapless operator to reconcile this Archive"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local is = {}
for _, condition in ipairs(obj.status.conditions) do
  is[condition.type] = condition
end
local function has_status(condition, status)
  return condition ~= nil and condition.status == status
end
local function set_health(status, condition)
  health.status = status
  if condition ~= nil then
    health.message = condition.reason
    if condition.message ~= nil and condition.message ~= "" then
      health.message = condition.reason .. ": " .. condition.message
    end
  end
  return health
end

-- A scheduled Archive is healthy before its first run: a sync must not wait a day.
local not_due_yet = obj.spec.schedule ~= nil and is.Ready ~= nil and is.Ready.reason == "NeverArchived"

if obj.spec.suspend then
  return set_health("Suspended", is.Ready)
elseif has_status(is.Stalled, "True") then
  return set_health("Degraded", is.Stalled)
elseif has_status(is.Ready, "True") or not_due_yet then
  return set_health("Healthy", is.Ready)
elseif has_status(is.Ready, "False") and not has_status(is.Reconciling, "True") then
  return set_health("Degraded", is.Ready)
end
return set_health("Progressing", is.Ready)
