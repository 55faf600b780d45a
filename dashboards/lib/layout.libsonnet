// Flow of panels from left to right over Grafana's 24 columns; a panel that does not fit starts a new line.
// Each panel gets its id and position here and nowhere else.
function(panels)
  local place(at, panel) =
    local wraps = at.x + panel.gridPos.w > 24;
    local x = if wraps then 0 else at.x;
    local y = if wraps then at.y + at.height else at.y;
    local height = if wraps then panel.gridPos.h else std.max(at.height, panel.gridPos.h);
    {
      x: x + panel.gridPos.w,
      y: y,
      height: height,
      placed: at.placed + [panel { id: std.length(at.placed) + 1, gridPos+: { x: x, y: y } }],
    };
  std.foldl(place, panels, { x: 0, y: 0, height: 0, placed: [] }).placed
