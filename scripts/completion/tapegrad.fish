# Completes the command lines of tapegrad in fish. The program itself knows what fits: see apps/cli/completion.h.
function __tapegrad_complete
    set -l line (commandline -opc) (commandline -ct)
    for fitting in (env TAPEGRAD_COMPLETE=1 $line 2>/dev/null)
        if test "$fitting" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $fitting
        end
    end
end
complete -c tapegrad -f -k -a '(__tapegrad_complete)'
