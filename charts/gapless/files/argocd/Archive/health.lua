-- Health of an Archive for Argo CD. One that archives is healthy, also while it waits for its scheduled time.
local health = {status = "Progressing", message = "The Gapless operator has not seen this Archive yet"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local is = {}
for _, condition in ipairs(obj.status.conditions) do
  is[condition.type] = condition
end
local function said(condition, status)
  return condition ~= nil and condition.status == status
end
local function answer(status, condition)
  health.status = status
  if condition ~= nil then
    health.message = condition.reason
    if condition.message ~= nil and condition.message ~= "" then
      health.message = condition.reason .. ": " .. condition.message
    end
  end
  return health
end

-- A scheduled Archive that was never due is as it should be: nobody must wait a day for a sync.
local waits = obj.spec.schedule ~= nil and is.Ready ~= nil and is.Ready.reason == "NeverArchived"

if obj.spec.suspend then
  return answer("Suspended", is.Ready)
elseif said(is.Stalled, "True") then
  return answer("Degraded", is.Stalled)
elseif said(is.Ready, "True") or waits then
  return answer("Healthy", is.Ready)
elseif said(is.Ready, "False") and not said(is.Reconciling, "True") then
  return answer("Degraded", is.Ready)
end
return answer("Progressing", is.Ready)
