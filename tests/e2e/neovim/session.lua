-- What a user does in Neovim: open a file, ask the server for a fill, take it, save the file.
-- Called with the path of a job in JSON; writes what happened to the job's `report`.

local job = vim.json.decode(io.open(arg[1]):read('a'), { luanil = { object = true } })
local report = { messages = {} }

local function wait_for(what, condition)
  assert(vim.wait(60000, condition, 5), 'waited in vain for ' .. what)
end

vim.lsp.handlers['window/showMessage'] = function(_, params)
  table.insert(report.messages, params.message)
end

local function start()
  vim.lsp.config('midfill', {
    cmd = job.command,
    filetypes = { 'python' },
    init_options = job.options,
    -- This Neovim has no client for it of its own.
    capabilities = { textDocument = { inlineCompletion = { dynamicRegistration = false } } },
  })
  vim.lsp.enable('midfill')
  vim.cmd('filetype on')
  vim.cmd(('edit ++ff=%s %s'):format(job.fileformat, vim.fn.fnameescape(job.path)))
  vim.bo.fixendofline = false
  local client
  wait_for('the server', function()
    client = vim.lsp.get_clients({ bufnr = 0, name = 'midfill' })[1]
    return client and client.initialized
  end)
  return client
end

local function complete(client)
  local row, col = unpack(job.start)
  vim.api.nvim_win_set_cursor(0, { row + 1, 0 })
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local line = vim.api.nvim_buf_get_lines(0, row, row + 1, true)[1]
  params.position.character = vim.str_utfindex(line, client.offset_encoding, col)
  params.context = { triggerKind = job.trigger }
  local answer = client:request_sync('textDocument/inlineCompletion', params, 60000, 0)
  assert(answer and not answer.err, vim.inspect(answer))
  report.items = answer.result.items
  local item = report.items[1]
  if item then
    local edit = { range = item.range, newText = item.insertText }
    vim.lsp.util.apply_text_edits({ edit }, vim.api.nvim_get_current_buf(), client.offset_encoding)
  end
end

local function fill()
  local before = vim.b.changedtick
  vim.o.selection = 'exclusive'
  vim.lsp.buf.code_action({
    apply = true,
    context = { only = { 'refactor.rewrite' }, diagnostics = {} },
    range = {
      start = { job.start[1] + 1, job.start[2] },
      ['end'] = { job.stop[1] + 1, job.stop[2] },
    },
  })
  wait_for('the edit', function()
    return vim.b.changedtick ~= before or #report.messages > 0
  end)
end

local function run()
  local client = start()
  report.encoding = client.offset_encoding
  if job.stop then
    fill()
  else
    complete(client)
  end
  vim.cmd('write')
  client:stop()
  wait_for('the end of the server', function()
    return client:is_stopped()
  end)
end

local fine, problem = xpcall(run, debug.traceback)
report.problem = not fine and problem or nil
local file = io.open(job.report, 'w')
file:write(vim.json.encode(report))
file:close()
